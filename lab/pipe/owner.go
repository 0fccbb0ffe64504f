package pipe

import (
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// An owner is one way to a lock, from the first request until it is given back. What is
// kept here is what its process was told, and what the server has done.
type owner struct {
	p     *process
	lock  string // the key
	token string

	first     oracle.Time   // its first request was sent; 0: none
	ttl       time.Duration // what it asks for
	grant     time.Duration // what a hand-off gives, at the least
	waits     bool          // it wanted a place
	heldSent  oracle.Time   // the last request was sent that was answered "held"
	heldAt    int64         // by the server's clock, in us
	heldFence uint64

	proofs   []oracle.Proof
	learned  oracle.Time // of its grant; 0: not
	base     oracle.Time // it can't have been granted before
	believed oracle.Time // it has its first turn; 0: not
	leaving  bool        // its process gives it up
	tries    int         // to do so
	refused  bool        // and the server did not let it

	place *oracle.Place // in the line, as the server has it
	since []oracle.Time // when the server gave it the lock
}

// owner returns the owner of this token; of the turns of a process all but the last part.
func (w *world) owner(p *process, lock, mine string) *owner {
	token := tokenOf(mine)
	o := w.owners[token]
	if o == nil {
		o = &owner{p: p, lock: lock, token: token}
		w.owners[token] = o
		w.order = append(w.order, o)
	}
	return o
}

// baseOf cuts the number of a turn off an owner: CLIENT.TOKEN.n is a turn of CLIENT.TOKEN.
func baseOf(token string) string {
	if part := strings.SplitN(token, ".", 3); len(part) == 3 {
		return part[0] + "." + part[1]
	}
	return token
}

// asks takes in that a request for the lock is sent.
func (o *owner) asks(sent oracle.Time, ttl, place string) {
	if o.first == 0 {
		o.first = sent
	}
	o.ttl = millis(ttl)
	if place == "" {
		return
	}
	part := strings.SplitN(place, ":", 5) // LEASE GRANT LIMIT HEARS WAKE
	if grant := millis(part[1]); !o.waits || grant < o.grant {
		o.grant = grant
	}
	o.waits = true
}

// leaves takes in that the process gives up whatever the owner has.
func (o *owner) leaves(now oracle.Time) {
	o.leaving = true
	o.tries++
	if o.place != nil {
		o.place.Gone = min(o.place.Gone, now)
	}
}

// held takes in the answer that somebody else has the lock.
func (o *owner) held(sent oracle.Time, server int64, fence uint64) {
	if sent >= o.heldSent {
		o.heldSent, o.heldAt, o.heldFence = sent, server, fence
	}
}

// granted takes in that the process has learned of the lock.
func (o *owner) granted(now, until oracle.Time, fence uint64) {
	if until <= now && o.learned == 0 {
		return // it proves nothing any more
	}
	if o.learned == 0 {
		o.learned, o.base = now, max(o.first, o.heldSent)
	}
	o.proofs = append(o.proofs, oracle.Proof{Learned: now, Until: until})
}

// carried is until when what the process knew at a time carries belief. At its end it is
// over.
func (o *owner) carried(at oracle.Time) (until oracle.Time) {
	for _, p := range o.proofs {
		// What came and was over before the process took the lock up proves nothing.
		if p.Learned <= at && p.Until > o.believed && (until == 0 || p.Learned < until) {
			until = max(until, p.Until)
		}
	}
	return until
}
