package pipe

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A truth is what the server has for a lock.
type truth struct {
	holder string // OWNER:SINCE of the value that was seen last
	line   []string
}

// A running is what the server did for an owner.
type running struct{ kind, token string }

// runs writes down what the server has run. w.mu must be held.
func (w *world) runs(kind string, keys, args []string) {
	now := w.now()
	note := func(mine string) {
		r := running{kind, tokenOf(mine)}
		w.ran[r] = append(w.ran[r], now)
	}
	if kind != "renew" {
		note(args[0])
		return
	}
	for i := range keys {
		note(args[2*i])
	}
}

// saw looks at what a script has made of a lock. It runs in one step with the script.
func (w *world) saw(keys, args []string, reply any) {
	kind := scriptOf(keys, args)
	if kind == "" {
		return
	}
	var value string
	var line []string
	if kind != "renew" {
		value, _ = w.server.memory.Get(keys[0])
		line = w.server.memory.Line(keys[2])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs(kind, keys, args); kind == "renew" {
		return
	}
	t := w.truths[keys[0]]
	if t == nil {
		t = new(truth)
		w.truths[keys[0]] = t
	}
	now := w.now()
	if part := strings.SplitN(value, ":", 5); len(part) == 5 {
		if holder := part[1] + ":" + part[3]; holder != t.holder {
			t.holder = holder
			if o := w.owners[part[1]]; o != nil {
				o.since = append(o.since, now)
				if o.place != nil && o.place.Gone == oracle.Never {
					o.place.Granted, o.place.Gone = now, now
				}
				w.note("server", "gives "+keys[0]+" to", "", part[1])
			}
		}
	}
	for _, token := range line {
		if o := w.owners[token]; o != nil && o.place == nil {
			o.place = o.joins(now, sinceOf(kind, args, reply))
			w.note("server", "takes into the line of "+keys[0], "", token)
		}
	}
	if !slices.Equal(line, t.line) {
		t.line = line
	}
}

// sinceOf is what a new place is ordered by, in us of the server's clock: what the client
// remembers, or the time.
func sinceOf(kind string, args []string, reply any) int64 {
	list, _ := reply.([]any)
	server := int64(0)
	if len(list) > 3 {
		server = digits(list[3])
	}
	at := 5
	if kind == "release" {
		at = 7
	}
	if len(args) <= at {
		return server
	}
	return min(digits(args[at]), server)
}

// joins makes the owner's place.
func (o *owner) joins(now oracle.Time, since int64) *oracle.Place {
	gone := oracle.Never
	if o.leaving || o.p.closing {
		gone = now // a request that was late
	}
	return &oracle.Place{
		Lock: o.lock, Who: o.p.name, Owner: o.token, Since: oracle.Time(since * 1000),
		Joined: now, Gone: gone, Granted: oracle.Never, Deaf: !o.p.live,
	}
}

// leftovers looks for what nobody will take away any more. Clients that were closed while
// something was wrong may leave things to their TTL, and an undo that was cut off for two
// TTLs may leave a place in a line.
func (w *world) leftovers(settled bool) {
	for _, key := range w.server.memory.Keys() {
		value, _ := w.server.memory.Get(key)
		part := strings.SplitN(value, ":", 3)
		switch {
		case strings.HasSuffix(key, ":lk-fence"):
		case isLock(key) && len(part) == 3 && (settled || !w.excused(part[1])):
			w.odd("the server", key, "keeps "+value)
		}
		for _, token := range w.server.memory.Line(key) {
			if !w.excused(token) {
				w.odd("the server", key, "keeps the place of "+token)
			}
		}
	}
}

// excused reports whether the process of an owner may have been unable to give up.
func (w *world) excused(token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.owners[token]
	return o == nil || w.harmed(o.p.name, o.first, w.now())
}
