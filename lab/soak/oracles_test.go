package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Times of the hand-made histories, in ms. The lock "a" has a TTL of 1000.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

// A story is a hand-made history.
type story struct {
	round  round
	events []event
	log    []entry
	count  int64

	requests int64
}

func newStory() *story {
	return &story{round: round{Locks: []lockSpec{{Name: "a", TTL: time.Second}}}}
}

// says adds an event at a time in ms.
func (s *story) says(at int64, who string, call int64, e event) *story {
	e.At, e.Who, e.Call, e.Name = ms(at), who, call, "a"
	s.events = append(s.events, e)
	return s
}

// ownerName is the owner of a call.
func ownerName(who string, call int64) string { return fmt.Sprintf("%s.%d", who, call) }

// asks adds a request and its answer a ms later; no answer is "dark".
func (s *story) asks(at int64, who string, call int64, script, told string, fence uint64) *story {
	s.requests++
	s.says(at, who, 0, event{What: asked, Text: script, Request: s.requests, Owner: ownerName(who, call)})
	if told == dark {
		return s
	}
	return s.says(at+1, who, 0, event{What: answered, Text: told, Request: s.requests, Fence: fence})
}

// gets adds a call that has the lock from a time on, with a deadline.
func (s *story) gets(at int64, who string, call int64, fence uint64, until int64) *story {
	return s.says(at-1, who, call, event{What: asks, Text: byAcquire}).
		asks(at-1, who, call, toAcquire, yes, fence).
		says(at, who, call, event{What: held, Fence: fence, Owner: ownerName(who, call), Until: ms(until)})
}

// has adds a call that has the lock from one time to another, with a deadline after
// that. It renews it, and gives it back.
func (s *story) has(who string, call, from, to int64, fence uint64) *story {
	s.gets(from, who, call, fence, min(to+500, from+899))
	for at := from + 400; at < to; at += 400 {
		s.asks(at, who, call, toRenew, yes, 0)
	}
	return s.says(to, who, call, event{What: free}).asks(to, who, call, toRelease, yes, 0)
}

// waits adds a call that waits and gets nothing; with to 0 it waits for ever.
func (s *story) waits(who string, call, from, to int64) *story {
	s.says(from, who, call, event{What: asks, Text: byAcquire})
	if to > 0 {
		s.says(to, who, call, event{What: failed, Text: string(kindHeld)})
	}
	return s
}

// parent adds an event of the parent, about who.
func (s *story) parent(at int64, what what, who string, until int64, text string) *story {
	s.events = append(s.events, event{At: ms(at), What: what, Who: who, Until: ms(until), Text: text})
	return s
}

func (s *story) parentFault(from, until int64, kind string) *story {
	s.events = append(s.events, event{At: ms(from), What: fault, Who: parentName, Until: ms(until), Kind: kind})
	return s
}

func (s *story) parentBack(at, by int64) *story {
	s.events = append(s.events, event{At: ms(at), What: back, Who: parentName, N: ms(by)})
	return s
}

// toldOf adds a request that is told that another has the lock.
func (s *story) toldOf(at int64, who string, call int64, holder string, holding int64, fence uint64) *story {
	s.asks(at, who, call, toAcquire, no, fence)
	s.events[len(s.events)-1].Holder = ownerName(holder, holding)
	return s
}

// slow adds a request that takes long, and is told that a holder has the lock.
func (s *story) slow(from, to int64, who string, call int64, holder string, fence uint64, server int64) *story {
	s.requests++
	return s.says(from, who, 0, event{What: asked, Text: toAcquire, Request: s.requests, Owner: ownerName(who, call)}).
		says(to, who, 0, event{What: answered, Text: no, Request: s.requests, Fence: fence, Holder: holder, Value: server})
}

// twice adds an owner that gives up twice, with another's hold in between.
func (s *story) twice(again func(s *story) *story) *story {
	s.gets(8201, "w4", 1, 200, 8700).says(8299, "w4", 1, event{What: free})
	return again(s).asks(8300, "w4", 1, toRelease, yes, 0).has("w5", 1, 8303, 8310, 201).asks(8312, "w4", 1, toRelease, yes, 0)
}

// told adds a hand-off whose message and answer come at about the same time.
func (s *story) told(server int64) *story {
	return s.asks(8285, "w4", 1, toAcquire, no, 106).
		slow(8800, 8902, "w4", 1, "w5.1", 150, server).
		says(8900, "w4", 0, event{What: heard, Owner: "w4.1", Fence: 200, Value: 5}).
		says(8000, "w4", 1, event{What: asks, Text: byAcquire}).
		says(8903, "w4", 1, event{What: held, Fence: 200, Owner: "w4.1", Until: ms(9700)}).
		says(9650, "w4", 1, event{What: free})
}

// adds adds an entry to the log, and raises the counter.
func (s *story) adds(who string, base, value, epoch int64) *story {
	s.log = append(s.log, entry{Name: "a", Base: base, Value: value, Epoch: epoch, Who: who})
	s.count++
	return s
}

func (s *story) history() *history {
	h := newHistory(&s.round, s.events)
	h.counters, h.entries = map[string]int64{"a": s.count}, s.log
	return h
}

// good is a history in which everything is as it should be: a hand-over, a death with a
// wait for the key's end, a lease that is renewed, a cancelled wait, commits of which
// one was not reported.
func good() *story {
	s := newStory().
		has("w1", 1, 10, 20, 100).
		waits("w2", 1, 12, 200).
		has("w2", 2, 21, 30, 101).
		gets(41, "w3", 1, 102, 900).
		asks(400, "w3", 1, toRenew, yes, 0).
		says(402, "w3", 1, event{What: renewed, Until: ms(1300)}).
		parent(500, killed, "w3", 0, "").
		has("w1", 2, 1402, 2900, 103).
		parent(2950, quiet, "parent", 9000, "").
		has("w2", 3, 3000, 3100, 104).
		waits("w1", 3, 3200, 3900).
		has("w1", 4, 8000, 8100, 106)
	s.adds("w1/1/0", 0, 1, 1).adds("w2/2/0", 1, 2, 2).adds("w2/2/1", 2, 3, 2)
	return s.says(25, "w2", 2, event{What: wrote, Value: 2, Text: "w2/2/0"})
}

func TestGoodHistory(t *testing.T) {
	s := good()
	s.round.Overtakes = 1
	for _, v := range s.history().judge() {
		t.Errorf("%s: %s", v.oracle, v.text)
	}
}

// An oracle that can't fail is none.
func TestOraclesSeeBadHistories(t *testing.T) {
	tests := []struct {
		name   string
		story  *story
		oracle string
		want   string
	}{
		{"an overlap", good().has("w4", 1, 25, 26, 200),
			"O1 no two holders", "two have a: w4 (owner w4.1, fence 200)"},
		{"an overlap with one that was killed, before its last deadline", good().has("w4", 1, 1200, 1210, 200),
			"O1 no two holders", "both for"},
		{"an overlap with one that believed beyond its deadline", good().
			gets(8201, "w4", 1, 200, 8700).
			says(8800, "w4", 1, event{What: free}).
			has("w5", 1, 8750, 8760, 201),
			"O1 no two holders", "two have a: w5 (owner w5.1, fence 201)"},
		{"a fence that goes back", good().has("w4", 1, 8200, 8210, 99),
			"O3 fences grow", "the fence of a does not grow: w4 (owner w4.1, fence 99)"},
		{"a fence twice", good().has("w4", 1, 8200, 8210, 106),
			"O3 fences grow", "the fence of a does not grow: w4 (owner w4.1, fence 106)"},
		{"a loss before its time", good().
			gets(8201, "w4", 1, 200, 8700).
			says(8300, "w4", 1, event{What: ended, Text: string(kindLost)}),
			"O7 no loss before its time", "a was lost before its time: w4 (owner w4.1, fence 200)"},
		{"a release that finds nothing", good().has("w4", 1, 8200, 8210, 200).
			says(8211, "w4", 1, event{What: released, Text: string(kindLost)}),
			"O7 no loss before its time", "a was lost before its time: w4 (owner w4.1, fence 200)"},
		{"a lost update", good().adds("w4/1/0", 2, 3, 3),
			"O2 no lost update", "lost update: commit 4, of w4/1/0"},
		{"a write of an old claim", good().adds("w4/1/0", 3, 4, 1),
			"O2 no lost update", "a write of an old claim: commit 4, of w4/1/0"},
		{"a counter that is wrong", func() *story { s := good(); s.count--; return s }(),
			"O2 no lost update", "a is 2 at the end, and the last commit, of w2/2/1"},
		{"a commit that is not there", good().says(26, "w2", 2, event{What: wrote, Value: 4, Text: "w2/2/2"}),
			"O2 no lost update", "which is not in the log"},
		{"a grant while another has the lock", good().asks(8050, "w4", 1, toAcquire, yes, 107),
			"O4 leases in an order", "acquires a"},
		{"a renewal of a lease that has ended", good().asks(9500, "w1", 4, toRenew, yes, 0),
			"O4 leases in an order", "renews a"},
		{"a refusal while nobody has the lock", good().asks(8300, "w4", 1, toAcquire, no, 0),
			"O4 leases in an order", "acquires a"},
		{"belief that no answer carries", good().
			gets(8201, "w4", 1, 200, 9300),
			"O8 no step without belief", "200ms too long"},
		{"a deadline that no answer carries", good().gets(8201, "w4", 1, 200, 9300).says(8300, "w4", 1, event{What: free}),
			"O8 no deadline without a proof", "200ms longer than any answer has proven"},
		{"a message that is taken for proof of more than it says", good().
			asks(8085, "w4", 1, toAcquire, no, 106).
			says(8900, "w4", 0, event{What: heard, Owner: "w4.1", Fence: 200, Value: 1}).
			says(8000, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8901, "w4", 1, event{What: held, Fence: 200, Owner: "w4.1", Until: ms(9700)}),
			"O8 no step without belief", "belief in a, w4"},
		{"an answer that is newer than the message", good().told(6),
			"O8 no deadline without a proof", "longer than any answer has proven"},
		{"a release that gives up what it has not", good().twice(func(s *story) *story { return s }),
			"O4 leases in an order", "releases a"},
		{"a step after the loss", good().gets(8201, "w4", 1, 200, 9000).
			says(8300, "w4", 1, event{What: ended, Text: string(kindLost)}).
			says(8400, "w4", 1, event{What: step, Fence: 200, Owner: "w4.1"}),
			"O8 no step without belief", "after belief has ended"},
		{"a refusal of somebody who has all rights", good().says(8200, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8201, "w4", 1, event{What: failed, Text: string(kindUnavailable), Error: "NOPERM"}),
			"O7 no refusal for nothing", "w4 was told \"NOPERM\" about a"},
		{"a stranded waiter", newStory().has("w1", 1, 10, 20, 100).waits("w2", 1, 15, 0).parent(30, quiet, "parent", 7000, ""),
			"nobody is stranded", "w2 call 1 waits for a"},
		{"one that was stranded and got it", newStory().has("w1", 1, 10, 20, 100).parent(30, quiet, "parent", 9000, "").
			says(100, "w2", 1, event{What: asks, Text: byAcquire}).
			says(7000, "w2", 1, event{What: held, Fence: 101, Until: ms(7500)}),
			"nobody is stranded", "w2 call 1 waits for a"},
		{"one that is overtaken", func() *story {
			s := good().waits("w4", 1, 2000, 8900).has("w1", 5, 7000, 7100, 105)
			s.round.Overtakes = 1
			return s
		}(),
			"nobody is overtaken for ever", "is overtaken by 2 later calls"},
		{"a wait that does not return", good().says(3000, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8900, "w4", 1, event{What: failed, Text: string(kindHeld), N: ms(2000)}),
			"a cancelled wait returns", "returns 2s after its context has ended"},
		{"a strange error", good().says(50, "w1", 1, event{What: odd, Text: "what is this"}),
			"nothing odd", "what is this"},
		{"a goroutine that is left", good().says(9000, "w1", 0, event{What: leak, Text: "goroutine 7"}),
			"a good end", "w1 has left goroutines behind: goroutine 7"},
		{"a key that is left", good().parent(9100, keys, "parent", 0, "lockkeeper:a"),
			"a good end", "keys are left on the server that should not be: lockkeeper:a"},
		{"a worker that dies", good().says(1, "w4", 0, event{What: starts}).parent(50, gone, "w4", 0, ""),
			"a good end", "w4 has ended without a word"},
		{"a worker that ends badly", good().parent(50, gone, "w4", 0, "ended with exit status 66"),
			"a good end", "w4 ended with exit status 66"},
		{"a call that never returns", good().waits("w4", 1, 8950, 0).says(9000, "w4", 0, event{What: bye}),
			"a good end", "w4 call 1 never returned"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := tt.story.history().judge()
			i := slices.IndexFunc(found, func(v violation) bool { return v.oracle == tt.oracle && strings.Contains(v.text, tt.want) })
			if i < 0 {
				t.Fatalf("got %v, want one of %q with %q", found, tt.oracle, tt.want)
			}
			if words := tt.story.history().lastWords("a", found[i].at, 10); !strings.Contains(words, "w") {
				t.Errorf("the last words are %q", words)
			}
		})
	}
}

// What is allowed must not be found: a run that fails for nothing is not believed when
// it fails for something.
func TestOraclesAllow(t *testing.T) {
	lossy := good().has("w4", 1, 25, 26, 50)
	lossy.round.Lossy = true
	tests := map[string]*story{
		"a refusal of somebody who has lost rights": good().says(8200, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8201, "w4", 1, event{What: failed, Text: string(kindUnavailable), Error: "NOPERM"}).
			parentFault(8100, 8150, kindDenyScripts),
		"a hand-off that only others have heard of": good().asks(8010, "w4", 1, toAcquire, no, 106).
			toldOf(8110, "w5", 1, "w4", 1, 107).asks(8400, "w4", 1, toRelease, yes, 0),
		"a request without an answer that took the lock": good().asks(8200, "w4", 1, toAcquire, dark, 0).
			toldOf(8300, "w5", 1, "w4", 1, 107),
		"a lease that lives longer because the clock goes back": good().asks(8200, "w4", 1, toAcquire, dark, 0).
			parentBack(8250, 500).toldOf(9600, "w5", 1, "w4", 1, 107),
		"an overlap and an old fence where Redis has lost its memory": lossy,
		"an answer that is taken in before the message":               good().has("w5", 1, 8200, 8890, 150).told(4),
		"a place that is made again after a release": good().
			twice(func(s *story) *story { return s.slow(8298, 8305, "w4", 1, "w5.1", 201, 0) }),
		"a hold that Close has ended": good().
			gets(8201, "w4", 1, 200, 8700).
			asks(8298, "w4", 1, toRelease, yes, 0).
			says(8300, "w4", 0, event{What: closing}).
			says(8302, "w4", 1, event{What: ended, Text: string(kindClosed)}).
			has("w5", 1, 8301, 8400, 201),
		"a loss at its deadline": good().
			gets(8201, "w4", 1, 200, 8700).
			says(8701, "w4", 1, event{What: ended, Text: string(kindLost)}),
		"a waiter that is stranded beside a fault": newStory().has("w1", 1, 10, 20, 100).waits("w2", 1, 15, 0).
			parent(30, quiet, "parent", 3000, "").parent(4000, quiet, "parent", 8000, ""),
		"a waiter behind others": newStory().waits("w2", 1, 15, 0).parent(10, quiet, "parent", 9000, "").
			has("w1", 1, 20, 3000, 100).has("w1", 2, 3010, 6000, 101).has("w1", 3, 6010, 8900, 102),
		"a lock that nobody wants": newStory().parent(10, quiet, "parent", 9000, ""),
		"a waiter whose process gets no processor": newStory().waits("w2", 1, 15, 0).parent(30, quiet, "parent", 7000, "").
			says(1000, "w2", 0, event{What: stall, N: ms(5000)}),
		"one that is overtaken because it gets no processor": func() *story {
			s := good().waits("w4", 1, 2000, 8900).has("w1", 5, 7000, 7100, 105).says(6000, "w4", 0, event{What: stall, N: ms(500)})
			s.round.Overtakes = 1
			return s
		}(),
		"a dead waiter": newStory().waits("w2", 1, 15, 0).parent(20, killed, "w2", 0, "").parent(30, quiet, "parent", 9000, ""),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			for _, v := range s.history().judge() {
				t.Errorf("%s: %s", v.oracle, v.text)
			}
		})
	}
}
