package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A question is one request to acquire, and what came back for it.
type question struct {
	core.Question
	lock     *Lock
	notAfter int64 // see lua/acquire.lua
	hears    bool  // we listen for messages
}

// A response is what came back for a question.
type response struct {
	reply any
	err   error
}

// send asks; waits says that we want a place in the line if somebody else has it.
func (q *question) send(ctx context.Context, waits bool) response {
	l := q.lock
	args := []string{q.Owner, l.ttl, l.label, strconv.FormatInt(q.notAfter, 10), "", ""}
	n := 4
	if waits {
		args[4], n = l.placeOf(q.hears, false), 5
		if q.Since != 0 {
			args[5], n = strconv.FormatInt(q.Since, 10), 6
		}
	}
	reply, err := l.c.run(ctx, acquireScript, q.Bound, l.keys[:], args[:n])
	return response{reply, err}
}

// loose returns what may still happen of the question after this answer.
func (q *question) loose(a core.Answer) core.Loose {
	if a != core.NoAnswer {
		return core.Loose{}
	}
	return core.Loose{Count: 1, Bound: q.Bound, NotAfter: q.notAfter, Only: true}
}

// placeOf returns how the scripts are told about a place in the line. again is for who
// has had the lock and waits again: the line is never full for them.
func (l *Lock) placeOf(hears, again bool) string {
	switch {
	case again && hears:
		return l.places[2]
	case again:
		return l.places[3]
	case hears:
		return l.places[1]
	}
	return l.places[0]
}

// describePlaces makes what placeOf returns, see lua/join.lua.
func (l *Lock) describePlaces() {
	t := l.kind.Terms
	describe := func(limit int, hears string) string {
		return fmt.Sprintf("%d:%d:%d:%s:%s", t.PlaceLease().Milliseconds(), t.HandOff().TTL.Milliseconds(), limit, hears, l.c.wakePrefix())
	}
	most := l.c.cfg.MaxQueue
	l.places = [4]string{describe(most, "0"), describe(most, "1"), describe(0, "1"), describe(0, "0")}
}

// answer reads the response to a question, see lua/acquire.lua. It keeps who holds the
// lock, or why there is no usable answer.
func (a *call) answer(q *question, r response) core.Reply {
	a.held, a.last = nil, r.err
	if r.err != nil {
		return troubled(r.err)
	}
	reply, held, err := q.read(r.reply)
	a.held, a.last = held, err
	return reply
}

// read reads a reply of acquire, or of the part of release that waits again.
func (q *question) read(reply any) (core.Reply, *HeldError, error) {
	switch v := reply.(type) {
	case string:
		n := number(v)
		return q.granted(n, n, 0, false)
	case []any:
		var word string
		if len(v) > 0 {
			word, _ = v[0].(string)
		}
		switch {
		case (len(v) == 4 || len(v) == 5) && (word == "held" || word == "full"):
			return q.heldBy(word, v)
		case len(v) == 2 && word == "late":
			q.lock.c.sample(q.Sent, number(v[1]))
			return core.Reply{Answer: core.Late}, nil, errLate
		case len(v) == 2:
			return q.granted(number(v[0]), number(v[1]), 0, false)
		case len(v) == 4:
			return q.granted(number(v[0]), number(v[1]), number(v[2]), number(v[3]) != 0)
		}
	}
	return core.Reply{Answer: core.Rejected}, nil, unexpected(reply)
}

var (
	errLate      = errors.New("the server ran the request too late: it is slow, or its clock has jumped")
	errLateGrant = errors.New("the grant came too late to be relied on")
)

func (q *question) granted(fence, server, last int64, others bool) (core.Reply, *HeldError, error) {
	q.lock.c.sample(q.Sent, server)
	if fence <= 0 {
		return core.Reply{Answer: core.Rejected}, nil, errors.New("the server granted the lock without a fence")
	}
	grant := core.Grant{Fence: uint64(fence), Last: uint64(max(last, 0)), Others: others, Hears: q.hears}
	return core.Reply{Answer: core.Granted, Grant: grant}, nil, errLateGrant
}

func (q *question) heldBy(word string, v []any) (core.Reply, *HeldError, error) {
	value, _ := v[1].(string)
	left := time.Duration(number(v[2])) * time.Millisecond
	server := number(v[3])
	q.lock.c.sample(q.Sent, server)
	held := &HeldError{Name: q.lock.name, Holder: parseHolder(value), Left: left}
	r := core.Reply{Answer: core.Held, Left: left, Server: server, Fence: uint64(held.Holder.Fence), Deaf: !q.hears}
	if len(v) == 5 {
		r.Before = int(number(v[4]))
	}
	if word == "full" {
		held.Err = queueFull(r.Before)
		return core.Reply{Answer: core.Rejected, NoEffect: true}, held, nil
	}
	return r, held, nil
}

// troubled classifies an error.
func troubled(err error) core.Reply {
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return core.Reply{Answer: core.NoAnswer}
	}
	answer := core.Rejected
	if core.Classify(reply.Code, reply.Message) == core.Transient {
		answer = core.Trouble
	}
	return core.Reply{Answer: answer, NoEffect: core.NoEffect(reply.Code, reply.Message)}
}

func queueFull(n int) error {
	return fmt.Errorf("%w: %d wait already, see Config.MaxQueue", ErrQueueFull, n)
}

// full is the error of a call that finds no place in a line.
func full(held *HeldError, name string, n int) error {
	h := HeldError{Name: name}
	if held != nil {
		h = *held
	}
	h.Err = queueFull(n)
	return &h
}
