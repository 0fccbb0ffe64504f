package oracle

import (
	"testing"
	"time"
)

// asked is an operation on L by the one owner of a process, with a TTL of 100 ms.
func asked(who string, kind OpKind, call, answered float64, outcome Outcome) Op {
	return Op{Lock: "L", Who: who, Owner: who + ".1", Kind: kind, Outcome: outcome,
		Call: ms(call), Return: ms(answered), TTL: 100 * time.Millisecond}
}

// open is an operation that nobody has answered, and that may still run.
func open(who string, kind OpKind, call float64) Op {
	op := asked(who, kind, call, 0, Unknown)
	op.Return = Never
	return op
}

func (op Op) of(owner string) Op               { op.Owner = owner; return op }
func (op Op) on(lock string) Op                { op.Lock = lock; return op }
func (op Op) lives(ttl time.Duration) Op       { op.TTL = ttl; return op }
func takes(who string, call, ret float64) Op   { return asked(who, Acquire, call, ret, Yes) }
func renews(who string, call, ret float64) Op  { return asked(who, Renew, call, ret, Yes) }
func frees(who string, call, ret float64) Op   { return asked(who, Release, call, ret, Yes) }
func refused(who string, call, ret float64) Op { return asked(who, Acquire, call, ret, No) }

// The slack is 1 ms in these.
var badLeases = map[string]struct {
	ops  []Op
	want []broken
}{
	"two have it":                 {[]Op{takes("a", 0, 1), takes("b", 2, 3)}, []broken{{"L", ms(3), "b (owner b.1) acquires L at 0.002000 s, TTL 100ms, told yes at 0.003000 s"}}},
	"two have it, and one waited": {[]Op{takes("a", 0, 1), takes("b", 0, 50)}, []broken{{"L", ms(50), "b (owner b.1) acquires"}}},
	"it had expired for b only":   {[]Op{takes("a", 0, 1), takes("b", 90, 98.9)}, []broken{{"L", ms(98.9), "ends between 0.099000 s and 0.102000 s"}}},
	"it was renewed":              {[]Op{takes("a", 0, 1), renews("a", 50, 51), takes("b", 110, 111)}, []broken{{"L", ms(111), "a (owner a.1) renews"}}},
	"a shorter renewal took from its life": {[]Op{takes("a", 0, 1), renews("a", 2, 3).lives(10 * time.Millisecond), takes("b", 50, 51)},
		[]broken{{"L", ms(51), ""}}},
	"asked again, and expired by the first":                  {[]Op{takes("a", 0, 1), takes("a", 60, 61), takes("b", 120, 121)}, []broken{{"L", ms(121), ""}}},
	"a renewal after the end":                                {[]Op{takes("a", 0, 1), renews("a", 102.1, 103)}, []broken{{"L", ms(103), "a (owner a.1) renews L at 0.102100 s, TTL 100ms, told yes"}}},
	"a renewal after a renewal's end":                        {[]Op{takes("a", 0, 1), renews("a", 50, 51), renews("a", 152.1, 153)}, []broken{{"L", ms(153), ""}}},
	"a renewal after a long wait's end":                      {[]Op{takes("h", 0, 1), frees("h", 90, 91), takes("a", 2, 300), renews("a", 401.1, 402)}, []broken{{"L", ms(402), "renews"}}},
	"a renewal after the end of what came after a long wait": {[]Op{takes("a", 0, 300), renews("a", 401.1, 402)}, []broken{{"L", ms(402), "renews"}}},
	"a renewal of another's":                                 {[]Op{takes("a", 0, 1), renews("b", 2, 3)}, []broken{{"L", ms(3), "b (owner b.1) renews"}}},
	"a renewal of what was given back":                       {[]Op{takes("a", 0, 1), frees("a", 2, 3), renews("a", 4, 5)}, []broken{{"L", ms(5), "renews"}}},
	"a renewal by another owner":                             {[]Op{takes("a", 0, 1), renews("a", 2, 3).of("a.2")}, []broken{{"L", ms(3), "owner a.2"}}},
	"given back by another":                                  {[]Op{takes("a", 0, 1), frees("b", 2, 3)}, []broken{{"L", ms(3), "b (owner b.1) releases"}}},
	"given back twice":                                       {[]Op{takes("a", 0, 1), frees("a", 2, 3), frees("a", 4, 5)}, []broken{{"L", ms(5), ""}}},
	"given back after its end":                               {[]Op{takes("a", 0, 1), frees("a", 102.1, 103)}, []broken{{"L", ms(103), ""}}},
	"given back, and still held":                             {[]Op{takes("a", 0, 1), frees("a", 2, 3), refused("b", 4, 5)}, []broken{{"L", ms(5), "told no"}}},
	"held by nobody":                                         {[]Op{refused("b", 4, 5)}, []broken{{"L", ms(5), "b (owner b.1) acquires L at 0.004000 s, TTL 100ms, told no"}}},
	"held by oneself":                                        {[]Op{takes("a", 0, 1), refused("a", 4, 5)}, []broken{{"L", ms(5), "told no"}}},
	"held for longer than it lives":                          {[]Op{takes("a", 0, 1), refused("b", 102.1, 103)}, []broken{{"L", ms(103), "told no"}}},
	"held for ever after a long wait":                        {[]Op{takes("a", 0, 300), refused("b", 401.1, 402)}, []broken{{"L", ms(402), "told no"}}},
	"a renewal refused while it lives":                       {[]Op{takes("a", 0, 1), asked("a", Renew, 50, 51, No)}, []broken{{"L", ms(51), "renews"}}},
	"a release refused while it lives":                       {[]Op{takes("a", 0, 1), asked("a", Release, 50, 51, No)}, []broken{{"L", ms(51), "releases"}}},
	"what may have happened did not":                         {[]Op{open("u", Acquire, 0), takes("a", 1, 2), takes("b", 3, 4)}, []broken{{"L", ms(4), "not told, may still run"}}},
	"what happened once happened twice":                      {[]Op{asked("u", Acquire, 0, 5, Unknown), refused("a", 6, 7), asked("a", Acquire, 106.1, 107, No)}, []broken{{"L", ms(107), ""}}},
	"too late to have happened":                              {[]Op{asked("u", Acquire, 0, 5, Unknown), takes("a", 6, 7), frees("a", 8, 9), refused("b", 10, 11)}, []broken{{"L", ms(11), ""}}},
	"a release nobody sent":                                  {[]Op{takes("a", 0, 1), open("a", Renew, 2), takes("b", 3, 4)}, []broken{{"L", ms(4), ""}}},
	"what happened once happened twice, and others between": {[]Op{asked("u", Acquire, 0, 100, Unknown).lives(10 * time.Millisecond), refused("w", 1, 2),
		takes("a", 20, 21), frees("a", 21.5, 23), takes("b", 22, 24), frees("b", 25, 26), refused("w", 50, 51)}, []broken{{"L", ms(51), ""}}},
	"refused what one gives back oneself": {[]Op{takes("b", 0, 3), frees("b", 2, 5), takes("a", 4, 6), refused("a", 7, 30), frees("a", 10, 11)}, []broken{{"L", ms(30), ""}}},
	"on the second lock, and once":        {[]Op{takes("a", 0, 1), takes("b", 2, 3).on("M"), takes("c", 4, 5).on("M"), takes("d", 6, 7).on("M")}, []broken{{"M", ms(5), "c (owner c.1) acquires M"}}},
	"on both":                             {[]Op{takes("a", 0, 1), takes("b", 2, 3).on("M"), takes("c", 4, 5).on("M"), takes("d", 6, 7)}, []broken{{"L", ms(7), ""}, {"M", ms(5), ""}}},
	"not told in order":                   {[]Op{renews("b", 2, 3), takes("a", 0, 1)}, []broken{{"L", ms(3), ""}}},
	"answered before it was asked":        {[]Op{takes("a", 2, 1)}, []broken{{"L", ms(1), "no history"}}},
}

func TestLeasesBad(t *testing.T) {
	for name, c := range badLeases {
		t.Run(name, func(t *testing.T) {
			expect(t, "O4", Leases(c.ops, time.Millisecond).Violations, c.want...)
		})
	}
}

var goodLeases = map[string][]Op{
	"none":                                         nil,
	"one after another":                            {takes("a", 0, 1), frees("a", 2, 3), takes("b", 4, 5), frees("b", 6, 7)},
	"they touch":                                   {takes("a", 0, 1), frees("a", 1, 2), takes("b", 2, 3), frees("b", 3, 4), refused("c", 3, 3)},
	"a hand-off":                                   {takes("a", 0, 1), refused("c", 2, 3), takes("b", 1, 6), frees("a", 4, 5), refused("c", 7, 8)},
	"a hand-off that was told first":               {takes("a", 0, 1), frees("a", 4, 9), takes("b", 1, 6), renews("b", 7, 8)},
	"refused as it was given back":                 {takes("a", 0, 1), frees("a", 2, 10), refused("b", 3, 4), takes("c", 5, 6)},
	"expiry at the very grant":                     {takes("a", 0, 0), takes("b", 100, 100), takes("c", 199, 199)},
	"expiry by slack sooner":                       {takes("a", 0, 1), takes("b", 98, 99)},
	"expiry by slack later":                        {takes("a", 0, 1), refused("b", 102, 103)},
	"renewed at the last instant":                  {takes("a", 0, 1), renews("a", 101.9, 103), refused("b", 150, 151)},
	"a renewal that was told late":                 {takes("a", 0, 1), renews("a", 90, 250), takes("b", 195, 196)},
	"a renewal that was told after another had it": {takes("a", 0, 1), renews("a", 50, 250), takes("b", 152, 153), frees("b", 154, 155), refused("c", 300, 301).on("M"), takes("d", 0, 1).on("M").lives(time.Second)},
	"a shorter renewal":                            {takes("a", 0, 1), renews("a", 2, 3).lives(10 * time.Millisecond), refused("b", 50, 51), renews("a", 90, 91)},
	"asked again":                                  {takes("a", 0, 1), takes("a", 60, 61), refused("b", 120, 121), takes("b", 162, 163)},
	"asked again after the end":                    {takes("a", 0, 1), takes("a", 160, 161)},
	"an unknown acquire that was":                  {asked("u", Acquire, 0, 5, Unknown), refused("a", 6, 7), takes("a", 106.1, 107)},
	"an unknown acquire that was not":              {asked("u", Acquire, 0, 5, Unknown), takes("a", 6, 7)},
	"an unknown acquire that was late":             {takes("a", 0, 1), open("u", Acquire, 2), frees("a", 3, 4), takes("b", 5, 6), frees("b", 7, 8), refused("c", 500, 501)},
	"an unknown acquire that is undone":            {open("u", Acquire, 0), frees("u", 2, 3), takes("a", 4, 5)},
	"an unknown renewal that was":                  {takes("a", 0, 1), asked("a", Renew, 50, 60, Unknown), refused("b", 140, 141), takes("c", 161, 162)},
	"an unknown renewal that was not":              {takes("a", 0, 1), asked("a", Renew, 50, 60, Unknown), takes("b", 101, 102)},
	"an unknown release that was":                  {takes("a", 0, 1), open("a", Release, 2), takes("b", 3, 4)},
	"an unknown release that was not":              {takes("a", 0, 1), open("a", Release, 2), refused("b", 3, 4), renews("a", 5, 6)},
	"an unknown release that was late":             {takes("a", 0, 1), open("a", Release, 2), refused("b", 3, 4), takes("b", 5, 6)},
	"many unknown":                                 {open("u", Acquire, 0), open("v", Acquire, 0), open("w", Acquire, 0), refused("a", 1, 2), takes("a", 200, 201), refused("b", 202, 203), refused("b", 400, 401), refused("b", 600, 601)},
	"the first of two unknown ones": {asked("u", Acquire, 0, 5, Unknown).lives(time.Millisecond), asked("v", Acquire, 0, 5, Unknown).lives(time.Millisecond),
		refused("w", 1, 1.5), refused("u", 3, 3.5)},
	"the second of two unknown ones": {asked("u", Acquire, 0, 5, Unknown).lives(time.Millisecond), asked("v", Acquire, 0, 5, Unknown).lives(time.Millisecond),
		refused("w", 1, 1.5), refused("v", 3, 3.5)},
	"a long wait":                     {takes("h", 0, 1), renews("h", 90, 91), takes("a", 2, 300), frees("h", 180, 181), refused("b", 182, 190), renews("a", 270, 271)},
	"one owner, and another between":  {takes("a", 0, 1), takes("b", 102, 135), frees("b", 104, 139), refused("c", 105, 106), takes("a", 110, 111), frees("a", 130, 131)},
	"two stays that are over at once": {asked("b", Renew, 0, 1, No), takes("b", 8, 10), takes("a", 5, 10), refused("c", 6, 7), frees("a", 10, 10), frees("b", 10, 11)},
	"told of it after all was over":   {takes("a", 0, 50), renews("a", 5, 6), asked("a", Release, 7, 9, Unknown), takes("b", 10, 11), frees("b", 20, 21)},
	"renewed long after it was asked": {takes("a", 0, 50), takes("c", 1, 10), refused("d", 2, 3), renews("a", 5, 60), frees("c", 20, 21)},
	"a shorter renewal, to the end":   {takes("a", 0, 1), renews("a", 2, 3).lives(10 * time.Millisecond), takes("b", 101, 102)},
	"a wait that gave up":             {takes("a", 0, 1), refused("b", 2, 500)},
	"released after it was lost":      {takes("a", 0, 1), takes("b", 150, 151), asked("a", Release, 152, 153, No), asked("a", Renew, 152, 153, No), frees("b", 154, 155)},
	"locks apart":                     {takes("a", 0, 1), takes("b", 0, 1).on("M"), renews("b", 2, 3).on("M"), renews("a", 2, 3)},
	"more slack than TTL":             {takes("a", 0, 1).lives(time.Microsecond), takes("b", 1, 2)},
}

func TestLeasesGood(t *testing.T) {
	for name, ops := range goodLeases {
		t.Run(name, func(t *testing.T) {
			v := Leases(ops, time.Millisecond)
			expect(t, "O4", v.Violations)
			if v.Ops != len(ops) || v.Undecided != 0 {
				t.Errorf("verdict is %+v", v)
			}
		})
	}
}

// A checker whose leases may end too late sees nothing in these; ours must.
func TestLeasesEndInTime(t *testing.T) {
	late := []string{"a renewal after the end", "a renewal after a renewal's end", "given back after its end",
		"held for longer than it lives", "held for ever after a long wait", "a renewal after the end of what came after a long wait"}
	for _, name := range late {
		if found := Leases(badLeases[name].ops, time.Hour).Violations; len(found) > 0 {
			t.Errorf("%s: with an hour of slack it is still wrong: it is no test of the window: %v", name, found)
		}
		if found := Leases(badLeases[name].ops, time.Millisecond).Violations; len(found) != 1 {
			t.Errorf("%s: found %d violations", name, len(found))
		}
	}
}
