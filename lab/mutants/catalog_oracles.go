package main

// blind are bugs in the oracles, which see less then: their own tests must find that out.
var blind = []mutant{
	{
		name: "blind-overlap-behind-a-short-hold",
		what: "O1 compares a hold with the one before only, and not with a longer one before that.",
		file: "lab/oracle/overlaps.go",
		old:  "if h.To > last.To {",
		new:  "if true {",
		killers: []killer{
			oracles.says("TestOverlaps", "violations"),
		},
	},
	{
		name: "blind-to-old-claims",
		what: "O2 takes a write of an older claim after one of a newer claim for right.",
		file: "lab/oracle/updates.go",
		old:  "w.Epoch < top.Epoch {",
		new:  "w.Epoch < 0 {",
		killers: []killer{
			oracles.says("TestUpdates", "violations"),
		},
	},
	{
		name: "blind-to-equal-fences",
		what: "O3 takes two holds with one fence for right.",
		file: "lab/oracle/fences.go",
		old:  "h.Fence <= top.Fence {",
		new:  "h.Fence < top.Fence {",
		killers: []killer{
			oracles.says("TestFences", "violations"),
		},
	},
	{
		name: "blind-late-end-of-leases",
		what: "O4 allows that a lease ends a whole TTL too late.",
		file: "lab/oracle/lease_event.go",
		old:  "op.Return.add(op.TTL + slack)}",
		new:  "op.Return.add(2*op.TTL + slack)}",
		killers: []killer{
			oracles.says("TestLeasesEndInTime", "found 0 violations"),
		},
	},
	{
		name: "blind-to-who-was-never-served",
		what: "O5 leaves out who still waits at the end.",
		file: "lab/oracle/liveness.go",
		old:  "if over <= latest {",
		new:  "if over <= latest || w.To == Never {",
		killers: []killer{
			oracles.says("TestLiveness", "violations"),
		},
	},
	{
		name: "blind-to-one-more-that-passes",
		what: "O6 lets one more pass than it should.",
		file: "lab/oracle/order.go",
		old:  "passed == most+1 {",
		new:  "passed == most+2 {",
		killers: []killer{
			oracles.says("TestOrder", "violations"),
		},
	},
	{
		name: "blind-to-early-losses",
		what: "O7 takes every loss for one that had to be.",
		file: "lab/oracle/answers.go",
		old:  "if h.Early >= carried {",
		new:  "if h.Early <= Never {",
		killers: []killer{
			oracles.says("TestLosses", "violations"),
		},
	},
	{
		name: "blind-to-belief-that-revives",
		what: "O8 lets a renewal count that was answered after belief had ended.",
		file: "lab/oracle/discipline.go",
		old:  "if p.Learned <= until {",
		new:  "if p.Learned <= Never {",
		killers: []killer{
			oracles.says("TestDiscipline", "violations"),
		},
	},
}
