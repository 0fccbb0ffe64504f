package pipe

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A hold is one turn of a call, while it is written down.
type hold struct {
	oracle.Hold
	owner *owner
	lease *lockkeeper.Lease
	over  bool        // the turn has ended: To is right
	lost  bool        // before it was given back
	until oracle.Time // what was believed when it was

	watch func() // ends the look-out for the end of belief
}

// hold does some work under a lease.
func (k *worker) hold(c *call, lease *lockkeeper.Lease) *hold {
	h := k.w.takes(c, lease)
	ttl := k.w.ttlOf(c.lock)
	until := time.Now().Add(k.length(ttl))
	for time.Now().Before(until) || k.rng.IntN(2) == 0 {
		if !k.step(c, h) {
			break
		}
		switch n := k.rng.IntN(100); {
		case n < 20:
			k.store(c, h, ttl)
		case n < 25:
			_ = lease.Extend(context.WithValue(context.Background(), callKey{}, nil), ttl*time.Duration(50+k.rng.IntN(150))/100/time.Millisecond*time.Millisecond)
		case n < 35 && ttl < time.Second:
			k.until(h, time.Until(lease.Deadline())) // to the very end of what is believed now
		case n < 50:
			k.until(h, min(time.Until(until), ttl/8))
		default:
			k.until(h, upTo(k.rng, k.w.length))
		}
	}
	return h
}

// length picks how long a hold lasts: most are short, some are renewed.
func (k *worker) length(ttl time.Duration) time.Duration {
	switch n := k.rng.IntN(100); {
	case n < 80:
		return upTo(k.rng, k.w.length)
	case n < 95:
		return upTo(k.rng, ttl/10)
	}
	return upTo(k.rng, ttl)
}

// until waits for a while, or until the lease is over.
func (k *worker) until(h *hold, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.lease.Done():
	}
}

// step is work that is done only if the lease is valid; it returns false if it is not.
func (k *worker) step(c *call, h *hold) bool {
	if h.lease.Err() != nil {
		return false
	}
	w := k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.history.steps = append(w.history.steps, oracle.Step{
		Lock: c.lock, Who: c.p.name, Owner: h.Owner, Fence: h.Fence, At: now,
	})
	if now >= h.owner.carried(now) { // here the instant itself counts, since clocks are exact
		w.history.odd = append(w.history.odd, oracle.Violation{
			Oracle: "O8", Lock: c.lock, At: now, Text: c.p.name + " was told that its lease is valid when belief is over",
		})
	}
	return true
}

// store adds one to the lock's row in the database, in two transactions after the claim.
// It looks at nothing but the claim meanwhile, and may take longer than the lease lives,
// as a process does that is stopped: then only the fence protects the row.
func (k *worker) store(c *call, h *hold, ttl time.Duration) {
	w, lease := k.w, h.lease
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	for repairs := 0; ; repairs++ {
		claim, seen, ok := w.table.claim(c.lock, uint64(lease.Fence()), lease.Owner())
		if ok {
			base := w.table.read(c.lock)
			think := upTo(k.rng, k.w.length)
			if k.rng.IntN(30) == 0 {
				think = upTo(k.rng, 2*ttl)
			}
			time.Sleep(think)
			w.table.write(claim, c.p.name, base, base+1)
			return
		}
		if repairs == 3 || lease.RaiseFence(ctx, lockkeeper.Fence(seen)) != nil {
			return
		}
	}
}

func (w *world) ttlOf(key string) time.Duration {
	return w.ttls[int(key[len(key)-1]-'0')]
}

// takes writes down that a process has a turn.
func (w *world) takes(c *call, lease *lockkeeper.Lease) *hold {
	h := &hold{lease: lease}
	stale := lease.Err() != nil
	w.mu.Lock()
	now := w.now()
	h.owner = w.owner(c.p, c.lock, baseOf(lease.Owner()))
	if h.owner.believed == 0 {
		h.owner.believed = now
	}
	h.Hold = oracle.Hold{
		Lock: c.lock, Who: c.p.name, Owner: h.owner.token, Fence: uint64(lease.Fence()), From: now, To: oracle.Never,
	}
	w.history.holds = append(w.history.holds, h)
	if c.p.on(c.lock).holds++; stale {
		h.ends(now - 1) // nobody has believed in it
		h.lost = errors.Is(lease.Err(), lockkeeper.ErrLost)
	}
	if stale && c.how == byTry && !c.p.closing {
		w.history.odd = append(w.history.odd, oracle.Violation{
			Oracle: "O7", Lock: c.lock, At: now, Text: c.p.name + " got a lease by Try that is over",
		})
	}
	w.note(c.p.name, "HAS", c.lock, lease.Owner()+" fence "+lease.Fence().String())
	w.mu.Unlock()

	bound, cancel := lease.Bind(context.Background())
	noted := make(chan struct{})
	stop := context.AfterFunc(bound, func() {
		defer close(noted)
		w.loses(c, h, context.Cause(bound))
	})
	h.watch = func() {
		if !stop() {
			<-noted
		}
		cancel()
	}
	return h
}

// loses writes down that belief has ended before the turn did.
func (w *world) loses(c *call, h *hold, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if h.over {
		return
	}
	h.ends(now)
	var lost *lockkeeper.LostError
	if errors.As(err, &lost) {
		h.lost = true
		if strings.Contains(lost.Reason, "somebody else's") {
			h.Early = now
		}
	}
	w.note(c.p.name, "loses", c.lock, err.Error())
}

// finish writes down that the turn ends now, if it has not ended yet.
func (h *hold) finish(w *world) {
	lost, left := h.lease.Err(), time.Until(h.lease.Deadline())
	h.watch()
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.over {
		return
	}
	h.ends(w.now())
	h.until = h.To + oracle.Time(left)
	h.lost = errors.Is(lost, lockkeeper.ErrLost)
	w.note(h.Who, "is done with", h.Lock, h.Owner)
}

// ends ends the turn. w.mu must be held.
func (h *hold) ends(now oracle.Time) { h.over, h.To = true, now }

// soon is how soon a request that failed is made again, at the most.
const soon = 100 * time.Millisecond

// gaveBack writes down what a release said, and what it might have said.
func (w *world) gaveBack(c *call, h *hold, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given++
	said := "released"
	if err != nil {
		said = saidBy(err)
	}
	a := oracle.Answer{Lock: c.lock, Who: c.p.name, At: w.now(), Said: said}
	left := h.until - a.At
	switch {
	case h.lost && c.how == byRun && c.p.on(c.lock).refused >= h.From: // it has asked again since
		a.Allowed = []string{"lost", "unavailable"}
	case h.lost:
		a.Allowed = []string{"lost"}
	case left <= 0:
		a.Allowed = []string{"released", "lost", "unavailable"}
	case h.owner.refused, h.owner.tries > 1 && w.harmed(c.p.name, h.To, a.At):
		a.Allowed = []string{"released", "unavailable"}
	case left < oracle.Time(soon): // no time is left for another try
		a.Allowed = []string{"released", "unavailable"}
	default:
		a.Allowed = []string{"released"}
	}
	if c.p.closing {
		a.Allowed = append(a.Allowed, "closed", "released")
	}
	w.history.answers = append(w.history.answers, a)
	k := c.p.on(c.lock)
	k.holds--
	k.until = a.At
	w.note(c.p.name, "has given back", c.lock, said)
}
