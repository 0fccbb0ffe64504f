package core

import "time"

// A Kind is what a hold is asked for with. Only calls of one kind pass a hold on
// without the server, whose key carries the TTL and the label.
type Kind struct {
	Terms Terms
	Label string
}

// A Place is one owner's way to the lock: its place in the line on the server, from
// its first request to a grant or to being undone. Its owner is never used again.
type Place struct {
	Owner string
	Since int64 // server time in us from which on it waits; 0: from the first request on
	Loose Loose // its requests without an answer

	// A hand-off that is told must have happened after proof: when the first request of
	// the owner was sent, or the last one that was answered "held", which the server
	// did at heldAt, in us of its clock, when the holder had heldFence. So belief in it
	// can start there, if it is newer than that answer.
	proof     Instant
	heldAt    int64
	heldFence uint64
	grant     time.Duration // the shortest TTL that a request has named for a hand-off

	there  bool // the server has said that it has the place, or the lock
	before int  // how many were before it, at the last answer
	missed int  // hand-offs that came too late to be believed
	wanted bool // another process has been told to wait for this owner
}

// Loose are the requests of one owner that may still run on the server.
type Loose struct {
	Count    int
	Bound    Instant // the last of them was given up then
	NotAfter int64   // the server refuses them from then on, in us of its clock; 0: it may not
	Only     bool    // there was one, and no place: if the owner has got the lock, then by it
}

func (u *Loose) sent(bound Instant, notAfter int64) {
	if u.Count > 0 && (u.NotAfter == 0 || notAfter != 0) {
		notAfter = max(notAfter, u.NotAfter)
		if u.NotAfter == 0 {
			notAfter = 0
		}
	}
	u.Count, u.Bound, u.NotAfter = u.Count+1, max(u.Bound, bound), notAfter
}

func (u *Loose) answered() {
	if u.Count--; u.Count <= 0 {
		*u = Loose{}
	}
}

// A Line is what one process does about one key: who waits there, in the order of
// their calls, and the one place on the server that the process has for all of them.
//
//	empty -> asking <-> parked -> held -> giving -> empty, asking or parked
type Line struct {
	state lineState
	first *Waiter
	last  *Waiter
	n     int
	fresh func() string // a new owner
	pace  pace
	due   Instant // parked: when to ask again
	hint  bool    // asking, giving: there is reason to ask again after the answer
	place Place   // while there is one
	hold  *Hold   // held, giving
	at    int     // in the keeper's heap; -1 outside

	Of any // the shell's own object
}

type lineState uint8

const (
	empty  lineState = iota
	asking           // a request for the place is on its way
	parked           // waiting for a message, or until due
	held             // this process has the lock
	giving           // the release is on its way
)

// A Move is what the shell has to do after an event. Not more than one of Ask, Win and
// Fail is set.
type Move struct {
	Ask  bool    // send the request that Question describes
	Win  *Waiter // it has the lock
	Fail bool    // the server has refused for a reason that waiting can't mend: all fail

	Drop  bool // nothing of the owner in Place may stay on the server
	Place Place
}

// NewLine returns an empty line. fresh makes owners; jitter in [0, 1) spreads the
// requests of many processes.
func NewLine(fresh func() string, jitter float64) Line {
	return Line{fresh: fresh, pace: pace{jitter: jitter}, due: Never, at: -1}
}

// IsEmpty reports whether nothing is left to do for the line.
func (l *Line) IsEmpty() bool { return l.state == empty }

// IsAsking reports whether a request is on its way.
func (l *Line) IsAsking() bool { return l.state == asking }

// Len returns how many calls wait.
func (l *Line) Len() int { return l.n }

// First returns who waits longest, or nil.
func (l *Line) First() *Waiter { return l.first }

// Hold returns the hold that the process has, or nil.
func (l *Line) Hold() *Hold { return l.hold }

// Due returns when Resume has to be called; Never if not by the clock.
func (l *Line) Due() Instant {
	if l.state != parked {
		return Never
	}
	return l.due
}

func (l *Line) next() Instant { return l.Due() }
func (l *Line) spot() *int    { return &l.at }

// Come takes in a new call.
func (l *Line) Come(now Instant, w *Waiter) Move {
	l.push(w)
	if l.state != empty {
		return Move{}
	}
	return l.begin(now)
}

// begin asks for the first waiter with a new owner.
func (l *Line) begin(now Instant) Move {
	l.newPlace(now)
	return l.ask()
}

func (l *Line) newPlace(now Instant) {
	l.place = Place{Owner: l.fresh(), proof: now, grant: l.first.Kind.Terms.HandOff().TTL}
	l.pace.troubles, l.pace.lates, l.hint = 0, 0, false
}

func (l *Line) ask() Move {
	l.state, l.hint = asking, false
	return Move{Ask: true}
}

// Leave takes in that a call waits no more. It returns false if the call has the lock
// already. The last call to leave takes the place on the server along.
func (l *Line) Leave(w *Waiter) (Move, bool) {
	if !w.queued {
		return Move{}, false
	}
	wasFirst := l.first == w
	l.remove(w)
	if wasFirst && l.first != nil && l.first.Kind != w.Kind {
		return l.Resume(), true // the place has the TTL and the label of who has left
	}
	if l.first != nil || l.state != asking && l.state != parked {
		return Move{}, true
	}
	l.state = empty
	return l.drop(), true
}

// Close takes in that the client ends: nobody waits any more, and who does is to be
// told.
func (l *Line) Close() Move {
	if l.state != asking && l.state != parked {
		return Move{}
	}
	l.state = empty
	return l.drop()
}

// drop gives the place up.
func (l *Line) drop() Move {
	m := Move{Drop: true, Place: l.place}
	l.place = Place{}
	return m
}

// A Question is a request for the place.
type Question struct {
	Owner string
	Kind  Kind
	Since int64 // as in Place
	Sent  Instant
	Bound Instant // it is given up then
}

// Question returns the request that an Ask is about, if it is sent now; somebody waits. direct says
// that a caller sits it out, who can't leave meanwhile. Asked has to follow.
func (l *Line) Question(now Instant, direct bool) Question {
	k := l.first.Kind
	l.place.grant = min(l.place.grant, k.Terms.HandOff().TTL)
	bound := min(requestMost, k.Terms.TTL-k.Terms.Margin)
	if direct {
		bound = min(bound, requestFirst)
	}
	return Question{
		Owner: l.place.Owner, Kind: k, Since: l.place.Since, Sent: now, Bound: now.Add(bound),
	}
}

// Asked takes in until when a question may run: it is given up at bound, and refused
// by the server after notAfter, on its clock in us; 0 is never.
func (l *Line) Asked(now, bound Instant, notAfter int64) {
	loose := &l.place.Loose
	if loose.Count > 0 && loose.NotAfter != 0 && now > loose.Bound.Add(time.Second) {
		*loose = Loose{} // none of them can run any more
	}
	loose.sent(bound, notAfter)
}

// Replied takes in what came of a question. It returns false if the question is of a
// former owner: then a grant has to be undone, and the rest is old.
func (l *Line) Replied(now Instant, q Question, r Reply) (Move, bool) {
	if l.hold != nil && l.hold.Owner == q.Owner {
		l.hold.answered(now, r, l.state == giving)
		return Move{}, true
	}
	if l.place.Owner != q.Owner || l.state != asking {
		return Move{}, false
	}
	if r.Answer != NoAnswer {
		l.place.Loose.answered()
	}
	return l.replied(now, q, r), true
}

func (l *Line) replied(now Instant, q Question, r Reply) Move {
	switch r.Answer {
	case Granted:
		if until := q.Kind.Terms.Until(q.Sent); now < until {
			return l.win(now, q.Kind, NewLease(q.Kind.Terms, q.Kind.Terms, q.Sent), r.Grant)
		}
		// It was ours, and it may be over by now. Asking again makes it live longer.
		l.place.there = true
		return l.park(now, l.pace.trouble())
	case Held:
		l.pace.troubles, l.pace.lates = 0, 0
		l.stands(q, r)
		if l.hint {
			return l.ask()
		}
		return l.park(now, l.pace.untilFree(r, q.Kind.Terms))
	case Late:
		// Our idea of the server's clock was wrong; it has just been corrected.
		if l.pace.lates++; l.pace.lates <= 3 {
			return l.ask()
		}
		return l.park(now, l.pace.trouble())
	case Trouble, NoAnswer:
		return l.park(now, l.pace.trouble())
	default: // Rejected, Full
		leaves := l.place.there || l.place.Loose.Count > 0 || !r.NoEffect
		m := l.drop()
		m.Drop, m.Fail = leaves, true
		if !leaves {
			m.Place = Place{}
		}
		l.state = empty
		return m
	}
}

// stands takes in that the place was there, and not granted, after the question was sent.
func (l *Line) stands(q Question, r Reply) {
	l.place.proof = max(l.place.proof, q.Sent)
	l.place.heldAt, l.place.heldFence, l.place.there = r.Server, r.Fence, true
	l.place.before = r.Before
	if l.place.Since == 0 {
		l.place.Since = r.Server
	}
}

func (l *Line) park(now Instant, d time.Duration) Move {
	l.state, l.due = parked, now.Add(d)
	return Move{}
}

// Resume takes in that it is due, or that there is reason to ask at once: the
// subscription is new, say, and messages may have been missed.
func (l *Line) Resume() Move {
	switch l.state {
	case parked:
		return l.ask()
	case asking, giving:
		l.hint = true
	}
	return Move{}
}

// mostMissed is how many hand-offs a place may miss before it goes to the end of the
// line: a process that is too slow for them must not hold up everybody for ever.
const mostMissed = 3

// soon is when a hold that was handed over, and lives for less than its TTL, is renewed,
// if its turn lasts that long.
const soon = 100 * time.Millisecond

// Granted takes in a message that the lock was handed to an owner. It returns false if
// that is not who waits here: then nothing of that owner may stay on the server.
//
// The message is no proof that the lock is ours now: it may be late, and even be about
// a hand-off that we have missed, and after which we were told "held". What is newer than
// that was handed over after Place.proof, and belief counts from there. Where that is too
// little, asking again finds out.
func (l *Line) Granted(now Instant, owner string, g Grant) (Move, bool) {
	if l.hold != nil && l.hold.Owner == owner {
		return Move{}, true // we know
	}
	if l.place.Owner != owner || l.state == empty {
		return Move{}, false
	}
	if l.first == nil { // giving, and all have left since
		return l.Resume(), true
	}
	kind := l.first.Kind
	granted := Terms{TTL: l.place.grant, Margin: kind.Terms.HandOff().Margin}
	lease := NewLease(kind.Terms, granted, l.place.proof)
	old := g.Server < l.place.heldAt || g.Fence <= l.place.heldFence
	if old || lease.until.Sub(now) < granted.believed()/3 {
		if l.place.missed++; l.place.missed >= mostMissed {
			l.place.missed, l.place.Since = 0, 0
		}
		return l.Resume(), true
	}
	if granted.TTL < kind.Terms.TTL {
		lease.due = min(lease.due, now.Add(soon))
	}
	return l.win(now, kind, lease, g), true
}

// Wanted takes in that another process waits for what the owner holds, or is about to.
func (l *Line) Wanted(owner string) {
	switch {
	case l.hold != nil && l.hold.Owner == owner:
		l.hold.others = true
	case l.place.Owner == owner:
		l.place.wanted = true
	}
}

// win makes the place a hold and gives it to the first waiter.
func (l *Line) win(now Instant, kind Kind, lease Lease, g Grant) Move {
	if l.first == nil { // it has left while it was being asked for
		l.state = empty
		return l.drop()
	}
	l.hold = &Hold{
		Lease: lease, Owner: l.place.Owner, Kind: kind,
		fence: g.Fence, last: max(g.Fence, g.Last),
		others: g.Others || l.place.wanted, hears: g.Hears,
		began: now, Loose: l.place.Loose,
	}
	l.place = Place{}
	l.state = held
	return Move{Win: l.pop()}
}
