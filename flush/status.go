package flush

import (
	"context"
	"time"
)

// A Status is how much waits to be flushed, as Redis says.
type Status struct {
	Dirty  int           // keys that have changed and are not flushed
	Oldest time.Duration // how long the oldest of them has been
	Parked int           // keys that can't be flushed
	Epoch  int64         // of the worker that may acknowledge; 0: there was none
}

// Status asks Redis, in one round trip. Any process may ask.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	reply, err := e.eval(ctx, statusScript, []string{e.keys.Dirty, e.keys.Parked, e.keys.Epoch})
	if err != nil {
		return Status{}, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) < 4 {
		return Status{}, unexpected(reply)
	}
	s := Status{Dirty: int(number(v[1])), Parked: int(number(v[3]))}
	if oldest := number(v[2]); oldest > 0 {
		s.Oldest = max(0, time.Duration(number(v[0])-oldest)*time.Microsecond)
	}
	if len(v) > 4 {
		s.Epoch = number(v[4])
	}
	return s, nil
}
