package main

import (
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

// has adds a call that has the lock from one time to another, with a deadline after
// that.
func (s *story) has(who string, call, from, to int64, fence uint64) *story {
	return s.says(from-1, who, call, event{What: asks, Text: byAcquire}).
		says(from, who, call, event{What: held, Fence: fence, Owner: who, Until: ms(to + 500)}).
		says(to, who, call, event{What: free})
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
		says(40, "w3", 1, event{What: asks, Text: byDo}).
		says(41, "w3", 1, event{What: held, Fence: 102, Until: ms(900)}).
		says(400, "w3", 1, event{What: renewed, Until: ms(1300)}).
		parent(500, killed, "w3", 0, "").
		has("w1", 2, 1300, 2900, 103).
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
			"no two holders", "w4 call 1 (fence 200) has a from"},
		{"an overlap with one that was killed, before its last deadline", good().has("w4", 1, 1200, 1210, 200),
			"no two holders", "both for 10ms"},
		{"an overlap with one that believed beyond its deadline", good().
			says(8200, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8201, "w4", 1, event{What: held, Fence: 200, Until: ms(8700)}).
			says(8800, "w4", 1, event{What: free}).
			has("w5", 1, 8750, 8760, 201),
			"no two holders", "w5 call 1 (fence 201) has a from"},
		{"a fence that goes back", good().has("w4", 1, 8200, 8210, 99),
			"fences grow", "w4 call 1 has a with fence 99, after w1 call 4 had it with 106"},
		{"a fence twice", good().has("w4", 1, 8200, 8210, 106),
			"fences grow", "with fence 106, after w1 call 4 had it with 106"},
		{"a loss before its time", good().
			says(8200, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8201, "w4", 1, event{What: held, Fence: 200, Until: ms(8700)}).
			says(8300, "w4", 1, event{What: ended, Text: string(kindLost)}),
			"no loss before its time", "w4 call 1 has lost a"},
		{"a release that finds nothing", good().has("w4", 1, 8200, 8210, 200).
			says(8211, "w4", 1, event{What: released, Text: string(kindLost)}),
			"no loss before its time", "w4 call 1 has lost a"},
		{"a lost update", good().adds("w4/1/0", 2, 3, 3),
			"no lost update", "w4/1/0 has made 3 of 2, when the counter of a was 3"},
		{"a write of an old claim", good().adds("w4/1/0", 3, 4, 1),
			"no lost update", "w4/1/0 has written to a with epoch 1 after one with epoch 2"},
		{"a counter that is wrong", func() *story { s := good(); s.count--; return s }(),
			"no lost update", "the counter of a is 2 after 3 additions"},
		{"a commit that is not there", good().says(26, "w2", 2, event{What: wrote, Value: 4, Text: "w2/2/2"}),
			"no lost update", "which is not in the log"},
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
		"an overlap and an old fence where Redis has lost its memory": lossy,
		"a hold that Close has ended": good().
			says(8200, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8201, "w4", 1, event{What: held, Fence: 200, Until: ms(8700)}).
			says(8300, "w4", 0, event{What: closing}).
			says(8302, "w4", 1, event{What: ended, Text: string(kindClosed)}).
			has("w5", 1, 8301, 8400, 201),
		"a loss at its deadline": good().
			says(8200, "w4", 1, event{What: asks, Text: byAcquire}).
			says(8201, "w4", 1, event{What: held, Fence: 200, Until: ms(8700)}).
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
