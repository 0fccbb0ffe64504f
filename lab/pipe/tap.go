package pipe

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A tap is the connection of one process, on which all that it asks and is told is
// written down. It changes nothing.
type tap struct {
	conn lockkeeper.Conn
	p    *process
}

// InProcess tells the client that its clock and the server's stand still together, which
// is what a bubble does to them.
func (t *tap) InProcess() bool { return true }

// EvalSha implements lockkeeper.Conn.
func (t *tap) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	return t.script(ctx, true, keys, args, func() (any, error) { return t.conn.EvalSha(ctx, sha, keys, args) })
}

// Eval implements lockkeeper.Conn.
func (t *tap) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return t.script(ctx, false, keys, args, func() (any, error) { return t.conn.Eval(ctx, src, keys, args) })
}

// Listen implements lockkeeper.Conn.
func (t *tap) Listen(ctx context.Context, channel string, ready func(), message func(string)) error {
	defer t.p.hears(false)
	return t.conn.Listen(ctx, channel, func() {
		t.p.hears(true)
		ready()
	}, func(payload string) {
		for _, cancel := range t.p.w.told(t.p, payload) {
			cancel()
		}
		message(payload)
	})
}

// script runs one. A short form that the server does not know is followed by the long one,
// whose answer counts.
func (t *tap) script(ctx context.Context, short bool, keys, args []string, run func() (any, error)) (any, error) {
	w, kind := t.p.w, scriptOf(keys, args)
	if kind == "" {
		return run()
	}
	q := w.asks(t.p, ctx, kind, keys, args)
	q.short = short
	reply, err := run()
	w.answered(q, reply, err)
	return reply, err
}

// A query is one script that was sent.
type query struct {
	p     *process
	call  *call // that sent it itself; nil if nobody waits for it
	kind  string
	lock  string
	sent  oracle.Time
	short bool // by its hash
	keys  []string
	args  []string
	owner *owner // acquire, release
	again *owner // release: who waits again in the same step
}

// waits reports whether the query is that of a line, and not of a Try.
func (q *query) waits() bool { return q.again != nil || q.kind == "acquire" && q.owner.waits }

// asks writes down that a script is sent.
func (w *world) asks(p *process, ctx context.Context, kind string, keys, args []string) *query {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &query{p: p, kind: kind, lock: keys[0], sent: w.now(), keys: keys, args: args}
	q.call, _ = ctx.Value(callKey{}).(*call)
	w.ops++
	switch kind {
	case "acquire":
		place := ""
		if len(args) > 4 {
			place = args[4]
		}
		q.owner = w.owner(p, keys[0], args[0])
		q.owner.asks(q.sent, args[1], place)
		w.note(p.name, "asks for", keys[0], q.owner.token)
	case "release":
		q.owner = w.owner(p, keys[0], args[0])
		q.owner.leaves(q.sent)
		w.note(p.name, "gives back", keys[0], q.owner.token)
		if len(args) > 2 {
			q.again = w.owner(p, keys[0], args[2])
			q.again.asks(q.sent, args[3], args[6])
			w.note(p.name, "and waits again for", keys[0], q.again.token)
		}
	case "renew":
		for i, key := range keys {
			w.note(p.name, "renews", key, tokenOf(args[2*i]))
		}
	}
	if q.waits() {
		p.on(q.lock).asking++
	}
	return q
}

// answered writes down what came back.
func (w *world) answered(q *query, reply any, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if q.waits() {
		q.p.on(q.lock).asking--
	}
	var refused *lockkeeper.ReplyError
	if errors.As(err, &refused) && refused.Code == "NOSCRIPT" && q.short {
		return
	}
	unsure := err != nil && refused == nil || refused != nil && refused.Code == "NOPERM"
	if refused != nil && !refused.Transient() {
		q.p.on(q.lock).refused = now
	}
	if err != nil && (q.waits() || q.kind == "release") {
		q.p.on(q.lock).failed = now
	}
	if err != nil {
		w.note(q.p.name, "is told an error:", q.lock, err.Error())
		if q.p.onRueidis && refused == nil {
			// The deadline of one call may cost all of them the connection that they share.
			w.harms = append(w.harms, harm{q.p.name, q.sent, now + oracle.Time(requestFailed)})
		}
	}
	switch q.kind {
	case "acquire":
		w.repliedTo(q, q.owner, reply, err, unsure, now)
	case "release":
		w.released(q, reply, err, unsure, now)
	case "renew":
		w.renewed(q, reply, err, unsure, now)
	}
}

// repliedTo takes in the answer to who asked for a lock, in a request of acquire or in
// the part of release that waits again.
func (w *world) repliedTo(q *query, o *owner, reply any, err error, unsure bool, now oracle.Time) {
	told := toldTrouble
	op := oracle.Op{Lock: q.lock, Who: q.p.name, Owner: o.token, Call: q.sent, Return: now, TTL: o.ttl}
	list, _ := reply.([]any)
	word := ""
	if len(list) > 0 {
		word, _ = list[0].(string)
	}
	switch {
	case unsure && o.waits:
		// It may still run, and then lengthens the life of what is theirs.
		op.Kind, op.Outcome, op.Return = oracle.Renew, oracle.Unknown, oracle.Never
		w.did(q, op)
	case err != nil, word == "late":
	case word == "held" || word == "full":
		told = toldHeld
		value, _ := list[1].(string)
		op.Kind, op.Outcome = oracle.Acquire, oracle.No
		w.did(q, op)
		o.held(q.sent, digits(list[3]), fenceOf(value))
		w.note(q.p.name, "is told: held", q.lock, value)
	default:
		fence := digits(reply)
		if len(list) > 0 {
			fence = digits(list[0])
		}
		until := q.sent + oracle.Time(o.ttl-marginOf(q.p.margin, o.ttl))
		if now < until {
			told = toldGranted
		}
		o.granted(now, until, uint64(fence))
		if o.waits { // it may have been theirs by a hand-off, for less than the TTL
			op.Kind = oracle.Renew
			w.did(q, op)
		}
		w.note(q.p.name, "is granted", q.lock, o.token)
	}
	if q.waits() && !o.leaving { // whom nobody waits with any more, nobody listens to
		q.p.tells(q.lock, told)
	}
	if q.call != nil {
		q.call.told = told
	}
}

// told takes in a message: of a hand-off, as far as it proves anything. It returns what
// cancels the calls that are to leave at the very moment at which they may get the lock.
func (w *world) told(p *process, payload string) (leave []context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	part := strings.SplitN(payload, ":", 7) // g lk1 OWNER FENCE SINCE OTHERS KEY
	w.note(p.name, "hears", "", payload)
	if len(part) != 7 || part[0] != "g" {
		return nil
	}
	k := p.on(part[6])
	leave, k.leave = k.leave, nil
	o := w.owners[part[2]]
	if o == nil || o.p != p {
		return leave
	}
	fence, since := digits(part[3]), digits(part[4])
	if since < o.heldAt || uint64(fence) <= o.heldFence {
		return leave // it is of a hand-off before an answer that denies it
	}
	// It was handed over after the last request that was answered "held" was sent.
	margin := min(marginOf(p.margin, o.ttl), time.Second)
	o.granted(w.now(), max(o.first, o.heldSent)+oracle.Time(o.grant-margin), uint64(fence))
	if !o.leaving {
		p.tells(part[6], toldGranted)
	}
	return leave
}

// released takes in the answer to a release.
func (w *world) released(q *query, reply any, err error, unsure bool, now oracle.Time) {
	op := oracle.Op{
		Lock: q.lock, Who: q.p.name, Owner: q.owner.token, Kind: oracle.Release,
		Outcome: oracle.Yes, Call: q.sent, Return: now,
	}
	list, _ := reply.([]any)
	switch {
	case unsure:
		op.Outcome, op.Return = oracle.Unknown, oracle.Never
	case err != nil:
	case len(list) == 1:
		op.Outcome = oracle.No
	}
	var refused *lockkeeper.ReplyError
	q.owner.refused = q.owner.refused || errors.As(err, &refused) && !refused.Transient()
	if err == nil || unsure {
		w.did(q, op)
	}
	if q.again != nil {
		if err != nil && !q.again.leaving {
			q.p.tells(q.lock, toldTrouble)
		}
		if len(list) > 1 {
			w.repliedTo(q, q.again, reply, nil, false, now)
		}
	}
}

// renewed takes in the answer to renewals.
func (w *world) renewed(q *query, reply any, err error, unsure bool, now oracle.Time) {
	list, _ := reply.([]any)
	for i, key := range q.keys {
		o := w.owner(q.p, key, q.args[2*i])
		ttl := millis(q.args[2*i+1])
		op := oracle.Op{
			Lock: key, Who: q.p.name, Owner: o.token, Kind: oracle.Renew,
			Outcome: oracle.No, Call: q.sent, Return: now, TTL: ttl,
		}
		switch {
		case unsure:
			op.Outcome, op.Return = oracle.Unknown, oracle.Never
		case err != nil:
			continue
		case i < len(list) && list[i] == int64(1):
			op.Outcome = oracle.Yes
			o.proofs = append(o.proofs, oracle.Proof{Learned: now, Until: q.sent + oracle.Time(ttl-marginOf(q.p.margin, ttl))})
			w.note(q.p.name, "has renewed", key, o.token)
		default:
			w.note(q.p.name, "is told: not yours", key, o.token)
		}
		w.did(q, op)
	}
}

// did writes down an operation of a query.
func (w *world) did(q *query, op oracle.Op) {
	w.history.ops = append(w.history.ops, operation{op, q.kind})
}

// millis reads a TTL as scripts take it.
func millis(s string) time.Duration { return time.Duration(digits(s)) * time.Millisecond }

// digits reads a number that comes as one or in digits; 0 is none.
func digits(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return 0
}

// tokenOf takes 'lk1:OWNER:' apart.
func tokenOf(mine string) string { return strings.TrimSuffix(strings.TrimPrefix(mine, "lk1:"), ":") }

// fenceOf reads the fence of a lock's value; 0 is none.
func fenceOf(value string) uint64 {
	part := strings.SplitN(value, ":", 4)
	if len(part) < 4 || part[0] != "lk1" {
		return 0
	}
	return uint64(digits(part[2]))
}
