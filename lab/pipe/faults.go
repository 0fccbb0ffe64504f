package pipe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A kind is a way in which something goes wrong.
type kind string

// These strike one request each, the next one of a process.
const (
	lostRequest kind = "request lost"     // nothing comes, and nothing is closed
	lostReply   kind = "reply lost"       // it ran; nothing comes, and nothing is closed
	cutRequest  kind = "cut in a request" // the server got half of it
	cutReply    kind = "cut in a reply"   // it ran; the client got half of the reply
	lateRequest kind = "request late"     // it runs later, maybe after it was given up
	lateReply   kind = "reply late"
	errorReply  kind = "error reply"
)

// These last for a while and concern one process.
const (
	hole         kind = "hole"                 // what is sent arrives when it is over
	deadHole     kind = "hole without a heal"  // the same, and connections stay dead
	repliesLost  kind = "replies lost"         // requests run, no reply comes
	refused      kind = "connections refused"  // what there were are closed
	trouble      kind = "errors"               // every script is answered with one
	messagesLost kind = "messages lost"        //
	messagesLate kind = "messages late"        //
	subCut       kind = "subscription cut"     //
	subDead      kind = "subscription dead"    // neither side is told
	killed       kind = "connections killed"   //
	crashed      kind = "process crashed"      // nothing of it is heard any more
	closes       kind = "client closed"        // no fault, but as much of an event
	slow         kind = "slow server"          // of all processes, as the following
	stopped      kind = "server stopped"       // all answers wait
	restarted    kind = "server restarted"     // with its memory, after a while
	noScripts    kind = "scripts lost"         //
	emptied      kind = "restart without data" // out of model, as the following
	evicted      kind = "key evicted"
	stepped      kind = "server clock stepped"
)

// ofRequests strike one request.
var ofRequests = []kind{lostRequest, lostReply, cutRequest, cutReply, lateRequest, lateReply, errorReply}

// ofProcesses are the others that are in the model.
var ofProcesses = []kind{
	hole, deadHole, repliesLost, refused, trouble, messagesLost, messagesLate, subCut, subDead, killed, crashed, closes,
	slow, stopped, restarted, noScripts,
}

// outOfModel break what GUARANTEES.md assumes.
var outOfModel = []kind{emptied, evicted, stepped}

// isGlobal reports whether a kind concerns all processes.
func (k kind) isGlobal() bool {
	return slices.Contains([]kind{slow, stopped, restarted, noScripts, emptied, evicted, stepped}, k)
}

// Replies that waiting mends, and those that it does not.
var (
	transient = []string{
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN The cluster is down",
		"NOREPLICAS Not enough good replicas to write.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"NOSCRIPT No matching script. Please use EVAL.",
		"ERR max number of clients reached",
	}
	refusals = []string{
		"NOPERM User default has no permissions to run the 'evalsha' command",
		"NOAUTH Authentication required.",
	}
)

// A fault is one entry of a plan.
type fault struct {
	At    time.Duration
	Kind  kind
	Who   int    // the process, counted from 0; without meaning if the kind is global
	Of    string // acquire, release or renew: strikes only such a request; "" is any
	Lasts time.Duration
	Line  string // what is answered
}

// String says the fault to people.
func (f fault) String() string {
	text := string(f.Kind)
	if f.Of != "" {
		text += " (" + f.Of + ")"
	}
	if f.Lasts > 0 {
		text += fmt.Sprintf(" for %s", f.Lasts)
	}
	if f.Line != "" {
		text += ": " + f.Line
	}
	if f.Kind.isGlobal() {
		return text
	}
	return fmt.Sprintf("p%d: %s", f.Who, text)
}

// plan makes the faults of a history, in the order of their times.
func plan(p params, rng *rand.Rand) (faults []fault) {
	for range p.faults {
		f := fault{At: upTo(rng, p.until), Who: rng.IntN(p.clients), Kind: pick(rng, ofProcesses)}
		if rng.IntN(100) < p.ofRequests {
			f.Kind, f.Of = pick(rng, ofRequests), pick(rng, []string{"", "acquire", "release", "renew"})
		}
		if p.lossy && rng.IntN(4) == 0 {
			f.Kind = pick(rng, outOfModel)
		}
		f.fill(p, rng)
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return int(a.At - b.At) })
	return faults
}

// fill chooses the rest of a fault. Lengths go by a TTL: what is much shorter is not
// felt, and what is longer ends holds.
func (f *fault) fill(p params, rng *rand.Rand) {
	ttl := pick(rng, p.ttls)
	switch f.Kind {
	case lateRequest, lateReply, messagesLate, hole, deadHole, repliesLost, refused, trouble, messagesLost, stopped, restarted:
		f.Lasts = upTo(rng, ttl/2)
		if rng.IntN(3) == 0 {
			f.Lasts = upTo(rng, 2*ttl)
		}
	case slow, stepped:
		f.Lasts = upTo(rng, 2*ttl)
	}
	switch {
	case f.Kind != errorReply && f.Kind != trouble:
	case rng.IntN(10) == 0:
		f.Line = pick(rng, refusals)
	default:
		f.Line = pick(rng, transient)
	}
}

// pick chooses one of a list.
func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// upTo is a time below most, and above 0.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most))) + 1
}
