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
			simulation("O1"),
		},
	},
	{
		name: "model-renew-without-compare",
		what: "The server of the simulation renews the lock, whoever asks.",
		file: "lab/sim/server.go",
		old:  "if k.holder != e.way {",
		new:  "if k.holder == nil {",
		killers: []killer{
			simulation("O4"),
		},
	},
	{
		name: "model-acquire-without-nx",
		what: "The server of the simulation gives the lock to whoever asks.",
		file: "lab/sim/server.go",
		old:  "free := k.holder == nil",
		new:  "free := true",
		killers: []killer{
			simulation("O1"),
		},
	},
	{
		name: "model-newcomers-pass-the-line",
		what: "A newcomer takes a lock that is free beside a line.",
		file: "lab/sim/server.go",
		old:  "if free && len(k.line) == 0 {",
		new:  "if free {",
		killers: []killer{
			simulation("O6"),
		},
	},
	{
		name: "model-not-after-is-ignored",
		what: "The server of the simulation runs a request whose caller has given up long ago.",
		file: "lab/sim/server.go",
		old:  "if a.notAfter != 0 && us > a.notAfter {",
		new:  "if false {",
		killers: []killer{
			simulation("core"),
		},
	},
	{
		name: "model-fence-without-the-counter",
		what: "A fence is the time alone.",
		file: "lab/sim/server.go",
		old:  "fence := max(uint64(us), k.counter+1)",
		new:  "fence := uint64(us)",
		killers: []killer{
			simulation("O3"),
		},
	},
	{
		name: "model-block-of-fences-used-twice",
		what: "A release gives out again the fences that the turns before it have used.",
		file: "lab/sim/server.go",
		old:  "v.handOff(k, max(used, k.fence), me, ttl)",
		new:  "v.handOff(k, k.fence, me, ttl)",
		killers: []killer{
			simulation("O3"),
		},
	},
	{
		name: "model-grant-without-leaving-the-line",
		what: "Who has been handed the lock stays in the line.",
		file: "lab/sim/server.go",
		old:  "\t\tg := v.give(k, p.way, p.grant, last+1)\n\t\tv.leave(k, p.way)\n",
		new:  "\t\tg := v.give(k, p.way, p.grant, last+1)\n",
		killers: []killer{
			simulation("O6"),
		},
	},
	{
		name: "model-dead-waiters-get-the-lock",
		what: "A place whose lease is over is served like one that lives.",
		file: "lab/sim/server.go",
		old:  "if p.deadline < us {",
		new:  "if false {",
		killers: []killer{
			simulation("O6"),
		},
	},
	{
		name: "model-deaf-waiters-get-the-lock",
		what: "A waiter whose connection is closed is handed the lock.",
		file: "lab/sim/server.go",
		old:  "if p.hears && !v.hears(p.way) {",
		new:  "if false {",
		killers: []killer{
			simulation("O6"),
		},
	},
	{
		name: "model-counter-without-the-block",
		what: "A hand-off gives a block of fences away that the counter does not know.",
		file: "lab/sim/server.go",
		old:  "\tk.counter = fence + v.w.Block - 1\n\tv.set(k, y, fence, ttl)\n\treturn core.Grant{Fence: fence, Last: k.counter}",
		new:  "\tv.set(k, y, fence, ttl)\n\treturn core.Grant{Fence: fence, Last: fence + v.w.Block - 1}",
		killers: []killer{
			simulation("O3"),
		},
	},
	{
		name: "model-renewal-shortens-a-life",
		what: "A renewal that runs late takes away what was believed.",
		file: "lab/sim/server.go",
		old:  "k.expires = max(k.expires, v.live(e.ttl))",
		new:  "k.expires = v.live(e.ttl)",
		killers: []killer{
			simulation("O1"),
		},
	},
	{
		name: "model-one-loss-stops-a-renewal-batch",
		what: "A lock that is lost fails the renewal of all that share its request.",
		file: "lab/sim/server.go",
		old:  "\t\t\tout[i] = core.NotOurs\n\t\t\tcontinue\n",
		new:  "\t\t\tfor j := range out {\n\t\t\t\tout[j] = core.NotOurs\n\t\t\t}\n\t\t\treturn out\n",
		killers: []killer{
			simulation("O7"),
		},
	},
	{
		name: "model-write-without-the-check",
		what: "A write does not look at the claim.",
		file: "lab/sim/database.go",
		old:  "return r.fence == c.fence && r.owner == c.owner",
		new:  "return true",
		killers: []killer{
			simulation("O2"),
		},
	},
	{
		name: "model-claim-after-the-read",
		what: "The claim comes after what is written was read.",
		file: "lab/sim/world.go",
		old:  "\tw := &world{variant: v, Params",
		new:  "\tv.flaw = claimLate\n\tw := &world{variant: v, Params",
		killers: []killer{
			simulation("O2"),
		},
	},
	{
		name: "model-no-look-before-a-step",
		what: "A step is begun without asking whether the lease is still valid.",
		file: "lab/sim/turn.go",
		old:  "\tif !t.valid() {\n\t\treturn false\n\t}\n\th := t.hold\n",
		new:  "\tif t.over {\n\t\treturn false\n\t}\n\th := t.hold\n",
		killers: []killer{
			simulation("O8"),
		},
	},
	{
		name: "model-cancel-without-handing-on",
		what: "A call that is cancelled as the lock comes keeps it.",
		file: "lab/sim/turn.go",
		old:  "\tif t.call.gone {\n\t\tt.end() // ",
		new:  "\tif t.call.gone {\n\t\t// ",
		killers: []killer{
			simulation("O5"),
		},
	},
	{
		name: "model-watchdog-outlives-the-release",
		what: "A lease that was released is renewed on.",
		file: "lab/sim/release.go",
		old:  "\tp.keeper.Drop(l)\n\tif !again {",
		new:  "\tif !again {",
		killers: []killer{
			simulation("O5"),
		},
	},
	{
		name: "model-error-is-a-loss",
		what: "A renewal that the server refuses for a moment ends the lease.",
		file: "lab/sim/turn.go",
		old:  "\t\t\toutcome := core.Unsure\n",
		new:  "\t\t\toutcome := core.Unsure\n\t\t\tif f.code != \"\" {\n\t\t\t\toutcome = core.NotOurs\n\t\t\t}\n",
		killers: []killer{
			simulation("O7"),
		},
	},
	{
		name: "model-no-answer-is-a-renewal",
		what: "A renewal that nobody has answered is told to the core as done.",
		file: "lab/sim/turn.go",
		old:  "\t\t\toutcome := core.Unsure\n",
		new:  "\t\t\toutcome := core.Renewed\n",
		killers: []killer{
			simulation("O1"),
		},
	},
}
