package main

// flushing are bugs in flush and flush/lua.
var flushing = []mutant{
	{
		name: "ack-without-compare",
		what: "A mark is taken away though the key has changed since it was read.",
		file: "flush/lua/ack.lua",
		old:  "if (versions[i] or '') ~= version then",
		new:  "if false then",
		fast: true,
		killers: []killer{
			flush.says("TestModels", "the model"),
		},
	},
	{
		name: "ack-of-an-old-epoch",
		what: "A worker that was superseded takes marks away.",
		file: "flush/lua/ack.lua",
		old:  "if epoch ~= ARGV[1] then",
		new:  "if false then",
		killers: []killer{
			flush.says("TestModels", "the model"),
		},
	},
	{
		name: "versions-repeat",
		what: "Two changes in one microsecond have one version.",
		file: "flush/lua/mark.lua",
		old:  "math.max(us, (tonumber(redis.call('GET', KEYS[4]) or 0) or 0) + 1)",
		new:  "us",
		killers: []killer{
			flush.says("TestModels", "the model"),
		},
	},
	{
		name: "mark-after-the-write",
		what: "The mark comes after the command, and not at all if that fails half-way.",
		file: "flush/lua/mark.lua",
		old:  "redis.call('HSET', KEYS[3], key, version .. 'U')\nredis.call('ZADD', KEYS[2], 'NX', version, key)\nlocal reply = redis.call(ARGV[2], key, unpack(ARGV, 3))\n",
		new:  "local reply = redis.call(ARGV[2], key, unpack(ARGV, 3))\nredis.call('HSET', KEYS[3], key, version .. 'U')\nredis.call('ZADD', KEYS[2], 'NX', version, key)\n",
		killers: []killer{
			flush.says("TestModels", "the model"),
		},
	},
	{
		name: "hold-without-compare",
		what: "A mark is put aside though the key has changed since it was read.",
		file: "flush/lua/hold.lua",
		old:  "if since and (redis.call('HGET', KEYS[3], ARGV[i]) or '') == ARGV[i + 1] then",
		new:  "if since then",
		killers: []killer{
			flush.says("TestModels", "the model"),
		},
	},
	{
		name: "epoch-twice",
		what: "Two workers have one epoch.",
		file: "flush/lua/epoch.lua",
		old:  ">= tonumber(ARGV[1])",
		new:  "> tonumber(ARGV[1])",
		killers: []killer{
			flush.says("TestModels", "the model"),
		},
	},
	{
		name: "delete-on-absence",
		what: "A key that is not there is taken for one that was deleted.",
		file: "flush/lua/intake.lua",
		old:  "and (said or string.sub(redis.call('HGET', KEYS[2], key) or '', -1) == 'D')",
		new:  "",
		killers: []killer{
			flush.says("TestModels", "the model"),
		},
	},
	{
		name: "ack-before-the-commit",
		what: "Marks are taken away before the rows are written.",
		file: "flush/store.go",
		old:  "\tif err := s.write(ctx, w, b.rows); err != nil {\n\t\treturn Stats{}, err\n\t}\n\tstats := w.stats()\n\tif err := s.putAside(ctx, w, &stats); err != nil {\n\t\treturn Stats{}, err\n\t}\n\tif err := s.acknowledge(ctx, w, &stats); err != nil {\n\t\treturn Stats{}, err\n\t}\n",
		new:  "\tw.written = b.rows\n\tstats := w.stats()\n\tif err := s.putAside(ctx, w, &stats); err != nil {\n\t\treturn Stats{}, err\n\t}\n\tif err := s.acknowledge(ctx, w, &stats); err != nil {\n\t\treturn Stats{}, err\n\t}\n\tw.written = nil\n\tif err := s.write(ctx, w, b.rows); err != nil {\n\t\treturn Stats{}, err\n\t}\n",
		fast: true,
		killers: []killer{
			flush.says("TestSimulation", "which is not written"),
		},
	},
	{
		name: "cursor-before-the-commit",
		what: "A stream is recorded as read before its entries are written.",
		file: "flush/store.go",
		old:  "\tif err := s.write(ctx, w, b.rows); err != nil {\n",
		new:  "\tif err := s.advance(ctx, w); err != nil {\n\t\treturn Stats{}, err\n\t}\n\tif err := s.write(ctx, w, b.rows); err != nil {\n",
		killers: []killer{
			flush.says("TestSimulation", "advance has moved the cursor"),
		},
	},
	{
		name: "fenced-redis-is-ignored",
		what: "A worker whose epoch does not stand on Redis goes on.",
		file: "flush/ack.go",
		old:  `v[0] == "fenced" {`,
		new:  `v[0] == "nothing" {`,
		killers: []killer{
			flush.says("TestSimulation", "the engine says"),
		},
	},
	{
		name: "refused-row-is-acknowledged",
		what: "A row that the database refuses counts as written.",
		file: "flush/store.go",
		old:  "\tw.parks = append(w.parks, p)\n\treturn s.parkedOne(ctx, &p)",
		new:  "\tw.written = append(w.written, *row)\n\treturn s.parkedOne(ctx, &p)",
		killers: []killer{
			flush.says("TestSimulation", "is not written"),
		},
	},
}
