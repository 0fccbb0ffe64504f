package goredisconn

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
)

// reply brings a reply into the form that RESP2 would give it: nil, int64, string
// or []any of these. A script's reply has that form also in RESP3, unless the
// script has called redis.setresp(3).
func reply(raw any) (any, error) {
	switch v := raw.(type) {
	case nil, int64, string:
		return raw, nil
	case []any:
		for i := range v {
			var err error
			if v[i], err = reply(v[i]); err != nil {
				return nil, err
			}
		}
		return raw, nil // v itself would be allocated again
	case error: // inside of an array: the script has not done what it should
		return nil, replyError(v)
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case float64:
		return strconv.FormatFloat(v, 'g', 17, 64), nil
	case *big.Int:
		return v.String(), nil
	case map[any]any:
		flat := make([]any, 0, 2*len(v))
		for key, value := range v {
			flat = append(flat, key, value)
		}
		return reply(flat)
	}
	return nil, fmt.Errorf("goredisconn: reply of the unknown type %T", raw)
}

// failure turns an error of go-redis into one of a lockkeeper.Conn. A nil reply,
// which is an error in go-redis, becomes none.
func failure(ctx context.Context, err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if reply := replyError(err); reply != nil {
		return reply
	}
	return contextual(ctx, err)
}

// replyError returns what the server itself answered, if that is what err is about.
func replyError(err error) error {
	var sent redis.Error
	if errors.As(err, &sent) {
		return lockkeeper.NewReplyError(sent.Error())
	}
	return nil
}

// contextual makes err match the context's error when, and only when, ctx is over.
// A read ends at ctx's deadline with a timeout of the network, a moment before ctx
// knows that it is over; and a dial that go-redis bounds by itself fails with
// context.DeadlineExceeded, though ctx may have all the time of the world.
func contextual(ctx context.Context, err error) error {
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); cause == nil && ok && !time.Now().Before(deadline) {
		cause = context.DeadlineExceeded
	}
	foreign := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case cause == nil && foreign:
		return fmt.Errorf("goredisconn: %v", err)
	case cause == nil || errors.Is(err, cause):
		return fmt.Errorf("goredisconn: %w", err)
	}
	return fmt.Errorf("goredisconn: %w: %w", cause, err)
}
