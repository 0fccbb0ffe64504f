package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
)

// reply returns what the server answered: nil, int64, string or []any of these, or
// its error as a *lockkeeper.ReplyError.
func reply(result rueidis.RedisResult) (any, error) {
	m, _ := result.ToMessage() // the error, if the message is one, is made below
	return convert(&m)
}

// convert brings a message into the form that RESP2 would give it. A script's reply
// has that form also in RESP3, unless the script has called redis.setresp(3).
func convert(m *rueidis.RedisMessage) (any, error) {
	switch {
	case m.IsNil():
		return nil, nil
	case m.IsInt64():
		return m.ToInt64()
	case m.IsArray():
		return array(m.ToArray())
	case m.IsBool():
		if yes, err := m.ToBool(); err != nil || !yes {
			return int64(0), err
		}
		return int64(1), nil
	case m.IsMap():
		return pairs(m.AsMap())
	}
	// For an error this returns the whole line. The text of the error itself has
	// lost the code, if that is ERR.
	s, err := m.ToString()
	if err != nil {
		return nil, lockkeeper.NewReplyError(s)
	}
	if !m.IsString() && len(s) > 3 && s[3] == ':' {
		s = s[4:] // a verbatim string starts with its format, such as txt:
	}
	return s, nil
}

// array converts the elements of an array. An error in it becomes the error of all.
func array(messages []rueidis.RedisMessage, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	values := make([]any, len(messages))
	for i := range messages {
		if values[i], err = convert(&messages[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// pairs makes a map a list of key and value in turn.
func pairs(messages map[string]rueidis.RedisMessage, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	values := make([]any, 0, 2*len(messages))
	for _, key := range slices.Sorted(maps.Keys(messages)) {
		m := messages[key]
		value, err := convert(&m)
		if err != nil {
			return nil, err
		}
		values = append(values, key, value)
	}
	return values, nil
}

// contextual makes err match the context's error when, and only when, ctx is over.
// A call fails with context.DeadlineExceeded also when the deadline of another one,
// on the same connection, made rueidis close it.
func contextual(ctx context.Context, err error) error {
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); cause == nil && ok && !time.Now().Before(deadline) {
		cause = context.DeadlineExceeded
	}
	foreign := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case cause == nil && foreign:
		return fmt.Errorf("rueidisconn: %v", err)
	case cause == nil || errors.Is(err, cause):
		return fmt.Errorf("rueidisconn: %w", err)
	}
	return fmt.Errorf("rueidisconn: %w: %w", cause, err)
}

// failure turns the error of a call that got no reply into one of a lockkeeper.Conn.
// That can be the server's as well: what it said when rueidis connected.
func failure(ctx context.Context, err error) error {
	var sent *rueidis.RedisError
	if !errors.As(err, &sent) {
		return contextual(ctx, err)
	}
	line := sent.Error()
	if code, _, _ := strings.Cut(line, " "); code != strings.ToUpper(code) {
		line = "ERR " + line // which rueidis takes away
	}
	return lockkeeper.NewReplyError(line)
}
