package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// ending is what there is at the end of a small run in which all went well.
type ending struct {
	picture *picture
	stored  rows
	deleted map[string]bool
	planted map[string]bool
	parked  []string
	writer  *writer
}

func wellEnded() *ending {
	p := &picture{
		rows: rows{
			"chaos_hash|1": "7|5|Ulm|1.00|1|<NULL>|", "chaos_list|w1|1|0": "a", "chaos_list|w1|1|1": "b",
			"chaos_stream|1|1-1": "1|x", "chaos_set|w1|1|": "",
		},
		good:  map[string]bool{"h:1": true, "l:w1:1": true, "x:1": true, "e:w1:1": true},
		bad:   map[string]string{"h:900000": "points are negative"},
		value: map[string]int64{"h:1": 7},
	}
	return &ending{
		picture: p,
		stored: rows{
			"chaos_hash|1": "7|5|Ulm|1.00|1|<NULL>|", "chaos_list|w1|1|0": "a", "chaos_list|w1|1|1": "b", "chaos_set|w1|1|": "",
			"chaos_stream|1|1-1": "1|x", "chaos_stream|2|1-1": "1|of a stream that was deleted",
			"chaos_hash|900000": "1|1|good|1.00|<NULL>|<NULL>|<NULL>",
		},
		deleted: map[string]bool{"x:2": true},
		planted: map[string]bool{"h:900000": true},
		parked:  []string{"h:900000"},
		writer:  &writer{accounts: map[string]*account{"h:1": {certain: 6, maybe: []int64{7}}, "h:2": {}}},
	}
}

func (e *ending) judge() []string {
	v := &verdict{}
	v.ledger(e.writer, e.picture)
	v.compare(e.picture, e.stored, e.deleted)
	v.parked(e.parked, e.planted, e.picture)
	return v.violations
}

func TestJudge(t *testing.T) {
	if found := wellEnded().judge(); len(found) > 0 {
		t.Fatalf("violations where all is well: %q", found)
	}
	for name, tt := range map[string]struct {
		spoil func(e *ending)
		want  string
	}{
		"row lost":                  {func(e *ending) { delete(e.stored, "chaos_hash|1") }, "lost:"},
		"element lost":              {func(e *ending) { delete(e.stored, "chaos_list|w1|1|1") }, "lost:"},
		"entry lost":                {func(e *ending) { delete(e.stored, "chaos_stream|1|1-1") }, "lost:"},
		"stale row":                 {func(e *ending) { e.stored["chaos_hash|1"] = "6|5|Ulm|1.00|1|<NULL>|" }, "different:"},
		"NULL for a text":           {func(e *ending) { e.stored["chaos_hash|1"] = "7|5|Ulm|1.00|1|<NULL>|<NULL>" }, "different:"},
		"delete lost":               {func(e *ending) { e.stored["chaos_hash|2"] = "1" }, "left over:"},
		"removed element stays":     {func(e *ending) { e.stored["chaos_list|w1|1|2"] = "c" }, "left over:"},
		"rows of a stream unknown":  {func(e *ending) { e.stored["chaos_stream|3|1-1"] = "1" }, "left over:"},
		"good key parked":           {func(e *ending) { e.parked = append(e.parked, "h:1") }, "parked:"},
		"bad key not parked":        {func(e *ending) { e.parked = nil }, "not parked:"},
		"bad key that nobody wrote": {func(e *ending) { e.picture.bad["h:5"] = "points" }, "planted:"},
		"confirmed write lost":      {func(e *ending) { e.picture.value["h:1"] = 5 }, "ledger:"},
		"confirmed delete undone":   {func(e *ending) { e.picture.value["h:2"] = 3 }, "ledger:"},
	} {
		t.Run(name, func(t *testing.T) {
			e := wellEnded()
			tt.spoil(e)
			found := e.judge()
			if len(found) != 1 || !strings.HasPrefix(found[0], tt.want) {
				t.Fatalf("found %q, want one violation that begins with %q", found, tt.want)
			}
		})
	}
}

// The second way from Redis to rows must know what is bad, or it finds nothing there.
func TestHashesOfPicture(t *testing.T) {
	for name, tt := range map[string]struct {
		fields map[string]string
		row    string
		bad    bool
	}{
		"all":        {map[string]string{"n": "1", "points": "2", "name": "", "price": "-0.50", "active": "1", "seen": "1700000000123", "note": "x"}, "1|2||-0.50|1|2023-11-14T22:13:20.123000Z|x", false},
		"some":       {map[string]string{"n": "1", "points": "2"}, "1|2|<NULL>|<NULL>|<NULL>|<NULL>|<NULL>", false},
		"no number":  {map[string]string{"points": "many"}, "", true},
		"negative":   {map[string]string{"points": "-1"}, "", true},
		"decimals":   {map[string]string{"price": "1.005"}, "", true},
		"NUL":        {map[string]string{"name": "a\x00"}, "", true},
		"no decimal": {map[string]string{"price": "3"}, "<NULL>|<NULL>|<NULL>|3.00|<NULL>|<NULL>|<NULL>", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &picture{rows: make(rows), value: make(map[string]int64)}
			why := p.hash("h:1", "row", tt.fields)
			if tt.bad != (why != "") || p.rows["row"] != tt.row {
				t.Fatalf("row %q, bad for %q", p.rows["row"], why)
			}
		})
	}
}

// The same seed makes the same writes, and all kinds of them.
func TestOperations(t *testing.T) {
	make := func() *source { return &source{writer: 1, rng: rand.New(rand.NewPCG(1, 2))} }
	a, b := make(), make()
	kinds, bad, deletes := map[byte]int{}, 0, 0
	for range 20_000 {
		o, p := a.operation(), b.operation()
		if o.key != p.key || o.command != p.command || strings.Join(o.args, "|") != strings.Join(p.args, "|") {
			t.Fatalf("%v and %v with the same seed", o, p)
		}
		kinds[o.key[0]]++
		if o.bad {
			bad++
		}
		if o.deletes {
			deletes++
		}
	}
	if len(kinds) != len(prefixes) || bad == 0 || deletes == 0 {
		t.Fatalf("kinds %v, %d bad, %d deletes", kinds, bad, deletes)
	}
}
