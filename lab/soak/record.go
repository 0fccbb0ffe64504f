package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// The scripts that the recorder knows, by what they are asked for.
const (
	toAcquire = "acquire"
	toRelease = "release"
	toRenew   = "renew"
	toRaise   = "raise"
)

// What came of a request.
const (
	yes     = "yes"
	no      = "no"
	nothing = "nothing" // it certainly did nothing
	dark    = "dark"    // there is no answer: it may have happened, or may still
)

// A recorder is a Conn that writes down what it is asked and what the server answers:
// before a request is sent, after its answer is there, and before anybody else hears of
// either. It knows the scripts by their keys and arguments, as docs/PROTOCOL.md has them.
//
// Now and then it is a fault itself: it lets a renewal or a release run once more, some
// time later, as a client does that repeats what is lost only to itself.
type recorder struct {
	lockkeeper.Conn
	journal *journal
	last    atomic.Int64 // request
	repeats sync.WaitGroup
}

// kindRepeat is that fault.
const kindRepeat = "request run again, late"

// repeatWithin is how late it comes at most.
const repeatWithin = 1500 * time.Millisecond

// One of so many requests is repeated, by script.
var repeatEvery = map[string]int64{toRenew: 32, toRelease: 2048}

// EvalSha implements lockkeeper.Conn.
func (r *recorder) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	return r.record(ctx, keys, args, func(ctx context.Context, keys, args []string) (any, error) {
		return r.Conn.EvalSha(ctx, sha, keys, args)
	})
}

// Eval implements lockkeeper.Conn.
func (r *recorder) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return r.record(ctx, keys, args, func(ctx context.Context, keys, args []string) (any, error) {
		return r.Conn.Eval(ctx, src, keys, args)
	})
}

// Listen implements lockkeeper.Conn.
func (r *recorder) Listen(ctx context.Context, channel string, ready func(), message func(payload string)) error {
	return r.Conn.Listen(ctx, channel, ready, func(payload string) {
		r.hear(payload)
		message(payload)
	})
}

// A run asks for a script.
type run func(ctx context.Context, keys, args []string) (any, error)

func (r *recorder) record(ctx context.Context, keys, args []string, run run) (any, error) {
	sent := describe(keys, args)
	first := r.write(sent)
	reply, err := run(ctx, keys, args)
	r.writeAnswers(sent, first, reply, err)
	if len(sent) > 0 && sent[0].Next == "" && repeatEvery[sent[0].Text] > 0 && first%repeatEvery[sent[0].Text] == 0 {
		keys, args := slices.Clone(keys), slices.Clone(args)
		r.repeats.Go(func() { r.repeat(keys, args, run) })
	}
	return reply, err
}

// write writes down what is sent, and returns the number of the first.
func (r *recorder) write(sent []event) (first int64) {
	first = r.last.Add(int64(len(sent))) - int64(len(sent)) + 1
	for i, e := range sent {
		e.Request = first + int64(i)
		r.journal.write(e)
	}
	return first
}

func (r *recorder) writeAnswers(sent []event, first int64, reply any, err error) {
	at := monotonic()
	for i, e := range sent {
		answer := event{At: at, What: answered, Request: first + int64(i), Name: e.Name}
		if answer.Text = outcome(err); err == nil {
			answer.read(e.Text, i, reply)
		}
		r.journal.write(answer)
	}
}

// repeat lets a request run once more. Nobody in the process hears of the answer.
func (r *recorder) repeat(keys, args []string, run run) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	pause(ctx, time.Duration(rand.Int64N(int64(repeatWithin))))
	sent := describe(keys, args)
	for i := range sent {
		sent[i].Kind = kindRepeat
	}
	from := monotonic()
	first := r.write(sent)
	reply, err := run(ctx, keys, args)
	r.writeAnswers(sent, first, reply, err)
	if err == nil {
		r.journal.write(event{What: fault, At: from, Until: monotonic(), Kind: kindRepeat, Text: sent[0].Text})
	}
}

// close waits for what is on its way. Nobody may send anything any more.
func (r *recorder) close() { r.repeats.Wait() }

// describe returns what a request is about: each lock that it wants something of.
func describe(keys, args []string) (sent []event) {
	e := event{What: asked, Name: lockOf(keys[0])}
	if len(args) > 0 {
		e.Owner = ownerOf(args[0])
	}
	switch grown := len(keys) > 1 && strings.HasSuffix(keys[1], fenceSuffix); {
	case !grown && len(args) == 2*len(keys):
		for i, key := range keys {
			sent = append(sent, event{What: asked, Text: toRenew, Name: lockOf(key), Owner: ownerOf(args[2*i])})
		}
		return sent
	case grown && len(keys) == 2 && len(args) == 2:
		e.Text = toRaise
	case grown && len(args) >= 4 && len(args) <= 6:
		e.Text = toAcquire
	case grown && (len(args) == 2 || len(args) >= 7):
		e.Text = toRelease
		if len(args) > 2 {
			e.Next = ownerOf(args[2])
		}
	default:
		return nil
	}
	return []event{e}
}

func lockOf(key string) string { return strings.TrimPrefix(key, lockkeeper.DefaultPrefix) }

// ownerOf returns the owner in an argument of a script, or in a lock's value.
func ownerOf(s string) string {
	owner, _, _ := strings.Cut(strings.TrimPrefix(s, "lk1:"), ":")
	return owner
}

// outcome says what an error tells. The codes are those of requests that the server
// refuses before it runs anything of them.
func outcome(err error) string {
	var reply *lockkeeper.ReplyError
	switch {
	case !errors.As(err, &reply):
		return dark
	case reply.Code == "NOPERM" && !strings.Contains(reply.Message, "evalsha") && !strings.Contains(reply.Message, "'eval'"):
		return dark // in the middle of a script
	}
	switch reply.Code {
	case "NOSCRIPT", "LOADING", "BUSY", "READONLY", "MASTERDOWN", "MISCONF", "OOM", "NOPERM", "NOAUTH", "WRONGPASS":
		return nothing
	}
	return dark
}

// read takes in a reply; i is which of the locks of a renewal it is about.
func (e *event) read(script string, i int, reply any) {
	e.Text = no
	list, _ := reply.([]any)
	switch script {
	case toRenew:
		if i < len(list) && list[i] == int64(1) {
			e.Text = yes
		}
	case toRaise:
		if e.Fence = digits(reply); e.Fence > 0 {
			e.Text = yes
		}
	case toAcquire:
		e.readGrant(reply, list)
	case toRelease:
		if reply == int64(1) || len(list) > 1 {
			e.Text = yes
		}
		if len(list) > 1 {
			grant := event{}
			grant.readGrant(reply, list)
			e.Fence, e.Holder, e.Value = grant.Fence, grant.Holder, grant.Value
			e.Kind = grant.Text
		}
	}
}

// readGrant takes in a reply of acquire, or of the part of release that waits again.
func (e *event) readGrant(reply any, list []any) {
	e.Text = yes
	if len(list) == 0 {
		e.Fence = digits(reply)
		return
	}
	word, _ := list[0].(string)
	switch {
	case word == "late":
		e.Text = nothing
	case word == "held" || word == "full":
		e.Text = no
		value, _ := list[1].(string)
		e.Holder, e.Fence = ownerOf(value), fenceOf(value)
		e.Value = int64(digits(list[3]))
	default:
		e.Fence = digits(list[0])
	}
}

// fenceOf returns the fence in a lock's value, or 0.
func fenceOf(value string) uint64 {
	part := strings.SplitN(value, ":", 4)
	if part[0] != "lk1" || len(part) < 4 {
		return 0
	}
	return digits(part[2])
}

// digits returns a number of a reply, or 0.
func digits(reply any) uint64 {
	text, _ := reply.(string)
	n, _ := strconv.ParseUint(text, 10, 64) // what is no number is none
	return n
}

// hear writes down that the lock was handed to an owner, see docs/PROTOCOL.md.
func (r *recorder) hear(payload string) {
	part := strings.SplitN(payload, ":", 7) // g lk1 OWNER FENCE SINCE OTHERS KEY
	if len(part) == 7 && part[0] == "g" {
		r.journal.write(event{
			What: heard, Name: lockOf(part[6]), Owner: part[2], Fence: digits(part[3]), Value: int64(digits(part[4])),
		})
	}
}
