package main

// models are bugs in what the simulation has for the scripts, the shell and the database:
// they show that its oracles see such bugs.
var models = []mutant{
	{
		name: "model-release-without-compare",
		what: "The server of the simulation gives the lock away, whoever asks.",
		file: "lab/sim/server.go",
		old:  "\tif k.holder != y {\n\t\tv.leave(k, y)",
		new:  "\tif k.holder == nil {\n\t\tv.leave(k, y)",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-renew-without-compare",
		what: "The server of the simulation renews the lock, whoever asks.",
		file: "lab/sim/server.go",
		old:  "if k.holder != e.way {",
		new:  "if k.holder == nil {",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-acquire-without-nx",
		what: "The server of the simulation gives the lock to whoever asks.",
		file: "lab/sim/server.go",
		old:  "free := k.holder == nil",
		new:  "free := true",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-newcomers-pass-the-line",
		what: "A newcomer takes a lock that is free beside a line.",
		file: "lab/sim/server.go",
		old:  "if free && len(k.line) == 0 {",
		new:  "if free {",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-not-after-is-ignored",
		what: "The server of the simulation runs a request whose caller has given up long ago.",
		file: "lab/sim/server.go",
		old:  "if a.notAfter != 0 && us > a.notAfter {",
		new:  "if false {",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-fence-without-the-counter",
		what: "A fence is the time alone.",
		file: "lab/sim/server.go",
		old:  "fence := max(uint64(us), k.counter+1)",
		new:  "fence := uint64(us)",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-block-of-fences-used-twice",
		what: "The counter keeps the first fence of a block that was given away.",
		file: "lab/sim/server.go",
		old:  "k.counter = fence + v.w.Block - 1",
		new:  "k.counter = fence",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-grant-without-leaving-the-line",
		what: "Who has been handed the lock stays in the line.",
		file: "lab/sim/server.go",
		old:  "\t\tg := v.give(k, p.way, p.grant, last+1)\n\t\tv.leave(k, p.way)\n",
		new:  "\t\tg := v.give(k, p.way, p.grant, last+1)\n",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-dead-waiters-get-the-lock",
		what: "A place whose lease is over is served like one that lives.",
		file: "lab/sim/server.go",
		old:  "if p.deadline < us {",
		new:  "if false {",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-deaf-waiters-get-the-lock",
		what: "A waiter whose connection is closed is handed the lock.",
		file: "lab/sim/server.go",
		old:  "if p.hears && !v.hears(p.way) {",
		new:  "if false {",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-fences-of-a-former-life",
		what: "A release sets the counter back to a fence from before the lock was lost.",
		file: "lab/sim/server.go",
		old:  "if used < k.fence { // that",
		new:  "if false { // that",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-renewal-shortens-a-life",
		what: "A renewal that runs late takes away what was believed.",
		file: "lab/sim/server.go",
		old:  "k.expires = max(k.expires, v.live(e.ttl))",
		new:  "k.expires = v.live(e.ttl)",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-one-loss-stops-a-renewal-batch",
		what: "A lock that is lost fails the renewal of all that share its request.",
		file: "lab/sim/server.go",
		old:  "\t\t\tout[i] = core.NotOurs\n\t\t\tcontinue\n",
		new:  "\t\t\tfor j := range out {\n\t\t\t\tout[j] = core.NotOurs\n\t\t\t}\n\t\t\treturn out\n",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-newer-fence-may-write",
		what: "A write is accepted while no larger fence is in the database.",
		file: "lab/sim/database.go",
		old:  "return r.fence == c.fence && r.owner == c.owner",
		new:  "return c.fence >= r.fence",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-write-without-the-check",
		what: "A write does not look at the claim.",
		file: "lab/sim/database.go",
		old:  "return r.fence == c.fence && r.owner == c.owner",
		new:  "return true",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-claim-after-the-read",
		what: "The claim comes after what is written was read.",
		file: "lab/sim/world.go",
		old:  "\tw := &world{variant: v, Params",
		new:  "\tv.flaw = claimLate\n\tw := &world{variant: v, Params",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-no-look-before-a-step",
		what: "A step is begun without asking whether the lease is still valid.",
		file: "lab/sim/turn.go",
		old:  "if !t.over && h.p.keeper.Expire(&h.core.Lease, h.p.now()) {",
		new:  "if false {",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-cancel-without-handing-on",
		what: "A call that is cancelled as the lock comes keeps it.",
		file: "lab/sim/turn.go",
		old:  "\tif t.call.gone {\n\t\tt.end() ",
		new:  "\tif t.call.gone {\n\t\tt.call.caller.next() ",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-stray-hand-off-is-kept",
		what: "A hand-off to a call that has left stays with it.",
		file: "lab/sim/line.go",
		old:  "\tp.undoes(y, core.Loose{}, p.w.Terms.TTL, 0, false)\n}\n\nfunc (ln *line) carry",
		new:  "}\n\nfunc (ln *line) carry",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
	{
		name: "model-watchdog-outlives-the-release",
		what: "A lease that was released is renewed on.",
		file: "lab/sim/release.go",
		old:  "\tp.keeper.Drop(l)\n\tif !again {",
		new:  "\tif !again {",
		killers: []killer{
			worlds.says("TestWorlds", "FAIL"),
		},
	},
}
