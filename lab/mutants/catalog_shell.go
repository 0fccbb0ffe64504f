package main

// shell are bugs in the root package, which gives the core its clock and its wire.
var shell = []mutant{
	{
		name: "try-believes-from-the-reply",
		what: "A hold that a try has got is believed from the reply on, and not from the request.",
		file: "acquire.go",
		old:  "core.NewHold(q.Owner, q.Kind, q.Sent, g)",
		new:  "core.NewHold(q.Owner, q.Kind, now, g)",
		killers: []killer{
			root.says("TestBeliefCountsFromSending", "deadline is 11.1s after sending, want 9s"),
		},
	},
	{
		name: "error-is-a-loss",
		what: "A renewal that fails for a moment ends the lease.",
		file: "keeper.go",
		old:  "outcome := core.Unsure",
		new:  "outcome := core.NotOurs",
		killers: []killer{
			root.says("TestTransientErrorsAreSurvived", "lost while it was believed"),
			clients("O7"),
		},
	},
	{
		name: "renewal-sent-when-it-was-answered",
		what: "A renewal says that it was sent when its answer came.",
		file: "keeper.go",
		old:  "\tc.renewed(batch, asked, sent, outcomes, err)",
		new:  "\tc.renewed(batch, asked, c.clock.now(), outcomes, err)",
		killers: []killer{
			root.says("TestRenewalCountsFromSending", "after the renewal was sent, want 9s"),
		},
	},
	{
		name: "one-loss-stops-a-renewal-batch",
		what: "A lock that is lost fails the renewal of all that share its request.",
		file: "keeper.go",
		old:  "\t\t\toutcomes[i] = core.NotOurs\n",
		new:  "\t\t\treturn nil, unexpected(reply)\n",
		killers: []killer{
			root.says("TestOneOfManyIsLost", "the others:"),
		},
	},
	{
		name: "watchdog-outlives-the-release",
		what: "A lease that was released is renewed on.",
		file: "release.go",
		old:  "\tc.keeper.Drop(&h.core.Lease)\n\tvar q *question",
		new:  "\tvar q *question",
		fast: true,
		killers: []killer{
			root.says("TestRenewedForAsLongAsItRuns", "renewed after the release"),
			clients("O5"),
		},
	},
	{
		name: "try-is-not-undone",
		what: "Nobody does what the machine of a try says about an unknown outcome.",
		file: "acquire.go",
		old:  "\t\tif undo {\n",
		new:  "\t\tif undo && false {\n",
		killers: []killer{
			root.says("TestLostAcquireReplyIsUndone", "is there: true"),
			root.says("TestLostAcquireReplyOnARealServer", "the key is gone: not after 20s"),
		},
	},
	{
		name: "cancel-without-handing-on",
		what: "A call that is cancelled as the lock comes keeps it until its TTL ends.",
		file: "acquire.go",
		old:  "\tc.follow(func() { _ = a.lease.Release(ctx) })\n",
		new:  "",
		killers: []killer{
			root.says("TestTurnsCancelRacesWithAPass", "the last still waits"),
			clients("O5"),
		},
	},
	{
		name: "stray-hand-off-is-kept",
		what: "A hand-off to a call that has left stays with it until its TTL ends.",
		file: "listen.go",
		old:  "\tc.undoes(c.stray(key), owner, core.Loose{}, 0)\n",
		new:  "",
		killers: []killer{
			root.says("TestHoleHandOffToNobody", "want at most 1ms"),
		},
	},
	{
		name: "one-owner-for-all",
		what: "All acquisitions of a client have one owner.",
		file: "lock.go",
		old:  `"." + rand.Text() + ":"`,
		new:  `"." + rand.Text()[:0] + "AAAAAAAAAAAAAAAAAAAAAAAAAA:"`,
		killers: []killer{
			root.says("TestAcquireIsIdempotent", "want a *HeldError"),
			clients("O8"),
			root.says("TestLostLeaseStaysLost", "the next hold has owner"),
		},
	},
	{
		name: "err-does-not-ask-the-clock",
		what: "Err waits for the keeper to find out that belief is over.",
		file: "lease.go",
		old:  "if l.err == nil && c.keeper.Expire(&h.core.Lease, now) {",
		new:  "if false {",
		killers: []killer{
			root.says("TestSuspendIsSeenAtOnceByErr", "nothing was noticed"),
			clients("O8"),
		},
	},
	{
		name: "context-does-not-ask-the-lease",
		what: "A context of a lease waits for the keeper to find out that belief is over.",
		file: "lease.go",
		old:  "\tif err := b.lease.Err(); err != nil {\n",
		new:  "\tif err := b.Context.Err(); err != nil {\n",
		killers: []killer{
			root.says("TestBoundContextDoesNotWaitForTheKeeper", "err <nil>, cause <nil>"),
		},
	},
	{
		name: "suspension-is-not-counted",
		what: "Time for which the machine is suspended does not count.",
		file: "clock.go",
		old:  "ahead = max(0, boot-c.boot-elapsed)",
		new:  "ahead = min(0, boot-c.boot-elapsed)",
		killers: []killer{
			root.says("TestSuspendEndsALeaseWithinHalfAMargin", "noticed after"),
			root.says("TestSuspendIsSeenAtOnceByErr", "nothing was noticed"),
		},
	},
	{
		name: "release-before-the-work-ends",
		what: "Do gives the lock back while its body runs.",
		file: "lease.go",
		old:  "\treturn fn(bound, l)\n",
		new:  "\t_ = l.Release(ctx)\n\treturn fn(bound, l)\n",
		killers: []killer{
			root.says("TestDoReleasesAfterTheBody", "released before the body has ended"),
		},
	},
	{
		name: "undo-is-not-driven",
		what: "Nobody sends the requests of an undo.",
		file: "undo.go",
		old:  "if c.follows(func() { c.drive(u) }) && loose.Count > 0 {",
		new:  "if loose.Count > 0 {",
		killers: []killer{
			root.says("TestUndoOutlivesTheCaller", "is there: true"),
			clients("O6"),
		},
	},
	{
		name: "new-subscription-does-not-ask",
		what: "Messages that were missed while there was no subscription are waited for.",
		file: "listen.go",
		old:  "ln.carry(now, ln.core.Resume())",
		new:  "ln.carry(now, core.Move{})",
		killers: []killer{
			root.says("TestReconnectedListenerAsksAtOnce", "want at most 101ms"),
		},
	},
	{
		name: "loss-does-not-cancel",
		what: "A lease that is over does not end its contexts.",
		file: "lease.go",
		old:  "\t\tb.cancel(err) // outside the lock: it runs callers' code\n",
		new:  "\t\t_ = b // outside the lock: it runs callers' code\n",
		killers: []killer{
			root.says("TestBindSeveral", "it took 1h0m0s, want exactly 9s"),
		},
	},
	{
		name: "outage-is-told-as-held",
		what: "A wait through an outage tells who had the lock before it.",
		file: "line.go",
		old:  "\tif held != nil || err != nil {\n",
		new:  "\tif held != nil {\n",
		killers: []killer{
			root.says("TestRedisDownDuringTheWait", "it must not match lockkeeper: held by another"),
		},
	},
}
