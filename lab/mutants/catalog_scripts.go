package main

// scripts are bugs in lua/.
var scripts = []mutant{
	{
		name: "release-without-compare",
		what: "A release gives the lock away, whoever has it.",
		file: "lua/release.lua",
		old:  "string.sub(value, 1, #mine) == mine",
		new:  "true",
		fast: true,
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
			root.says("TestForeignValuesAreLeftAlone", "want lockkeeper: lease lost"),
		},
	},
	{
		name: "renew-without-compare",
		what: "A renewal lengthens the life of the lock, whoever has it.",
		file: "lua/renew.lua",
		old:  "type(value) == 'string' and string.sub(value, 1, #mine) == mine",
		new:  "type(value) == 'string'",
		fast: true,
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "renewal-makes-the-key-again",
		what: "A renewal of a lock that has expired sets it again.",
		file: "lua/renew.lua",
		old:  "  out[i] = 0\n",
		new:  "  out[i] = 0\n  if not value then redis.call('SET', KEYS[i], mine .. '1:1:', 'PX', ttl) value = mine end\n",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "renewal-shortens-a-life",
		what: "A renewal that runs late, with another TTL, takes away what was believed.",
		file: "lua/renew.lua",
		old:  "if redis.call('PTTL', KEYS[i]) < tonumber(ttl) then",
		new:  "if true then",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "one-bad-key-stops-a-renewal-batch",
		what: "A key of another type fails the renewal of all locks that share its request.",
		file: "lua/renew.lua",
		old:  "type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE'",
		new:  "type(value) == 'table'",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "acquire-without-nx",
		what: "An acquire overwrites the lock of whoever has it.",
		file: "lua/acquire.lua",
		old:  "'PX', ARGV[2], 'NX')",
		new:  "'PX', ARGV[2])",
		fast: true,
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
			root.says("TestPlainClientsExcludeAndAreExcluded", "want a *HeldError"),
		},
	},
	{
		name: "newcomers-pass-the-line",
		what: "A newcomer takes a lock that is free beside a line of waiters who live.",
		file: "lua/acquire.lua",
		old:  "local alone = redis.call('EXISTS', KEYS[3]) == 0",
		new:  "local alone = true",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "not-after-is-ignored",
		what: "The server runs an acquire whose caller has given up long ago.",
		file: "lua/acquire.lua",
		old:  "if bound ~= '0' and (",
		new:  "if false and (",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "fence-without-the-counter",
		what: "A fence is the time alone, and does not grow where the clock does not.",
		file: "lua/acquire.lua",
		old:  "if not last or #last == #us and last < us then",
		new:  "if true then",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
			root.says("TestFencesGrow", "counter ahead of the clock: fence"),
		},
	},
	{
		name: "fence-counter-dies-with-the-lock",
		what: "The fence counter has the lock's TTL.",
		file: "lua/acquire.lua",
		old:  "redis.call('SET', KEYS[2], us, 'PX', '604800000', 'GET')",
		new:  "redis.call('SET', KEYS[2], us, 'PX', ARGV[2], 'GET')",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "asking-again-takes-another-place",
		what: "A waiter that asks again is put behind those who came after it.",
		file: "lua/join.lua",
		old:  "redis.call('ZADD', KEYS[3], 'NX', since, owner) == 1",
		new:  "redis.call('ZADD', KEYS[3], us, owner) == 1",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "line-without-ttl",
		what: "The line of a lock that nobody uses any more stays for ever.",
		file: "lua/join.lua",
		old:  "redis.call('PEXPIRE', KEYS[3], '60000')",
		new:  "",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
			root.says("TestNoKeyWithoutATTL", "has TTL -1"),
		},
	},
	{
		name: "grant-without-leaving-the-line",
		what: "Who has been handed the lock stays in the line, and gets it again.",
		file: "lua/handoff.lua",
		old:  "    redis.call('ZREM', KEYS[3], unpack(passed))\n",
		new:  "",
		fast: true,
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "dead-waiters-get-the-lock",
		what: "A place whose lease is over is served like one that lives.",
		file: "lua/handoff.lua",
		old:  "if deadline and tonumber(deadline) >= tonumber(us) then",
		new:  "if deadline then",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "deaf-waiters-get-the-lock",
		what: "A waiter whose connection is closed is handed the lock, and the others wait for its TTL.",
		file: "lua/handoff.lua",
		old:  "if wake == '' or hears(wake, owner) then",
		new:  "if true then",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "block-of-fences-used-twice",
		what: "The counter keeps the first fence of a block that was given away, and gives out the others again.",
		file: "lua/handoff.lua",
		old:  "redis.call('SET', KEYS[2], last, 'PX', '604800000')",
		new:  "redis.call('SET', KEYS[2], first, 'PX', '604800000')",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "delete-then-set-hand-off",
		what: "A hand-off deletes the lock before it sets it, so that an error in between leaves it free.",
		file: "lua/release.lua",
		old:  "local to, first, last, others, now, left = handoff(",
		new:  "redis.call('DEL', KEYS[1])\nlocal to, first, last, others, now, left = handoff(",
		killers: []killer{
			root.says("TestHoleSlotMigration", "the waiter lives: false"),
		},
	},
	{
		name: "fences-of-a-former-life",
		what: "A release sets the counter back to a fence that was used before the lock was lost.",
		file: "lua/release.lua",
		old:  "if tonumber(used) < tonumber(first) then",
		new:  "if false then",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "release-leaves-its-place",
		what: "Who stops waiting stays in the line.",
		file: "lua/release.lua",
		old:  "  redis.pcall('ZREM', KEYS[3], string.sub(mine, 5, -2))\n",
		new:  "",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
	{
		name: "break-without-compare",
		what: "A break ends whatever hold there is, and not the one that was looked at.",
		file: "lua/break.lua",
		old:  "string.match(value, '^lk1:[^:]+:([1-9]%d*):[1-9]%d*:') == ARGV[1]",
		new:  "true",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
			root.says("TestBreakLeavesForeignValuesAlone", "mark only: <nil>"),
		},
	},
	{
		name: "raise-below-what-was-seen",
		what: "A fence is raised, but not above the one that the database has seen.",
		file: "lua/raise.lua",
		old:  "math.max(last + 1, tonumber(ARGV[2]) + 1, us)",
		new:  "math.max(last + 1, us)",
		killers: []killer{
			root.says("TestScriptsMatchTheModel", "the model"),
		},
	},
}
