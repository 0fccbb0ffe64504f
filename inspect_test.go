package lockkeeper_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

func TestInspect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t, lockkeeper.WithLabel("me"))
		state, err := h.client.Inspect(t.Context(), "orders")
		want := lockkeeper.Holder{Owner: h.lease.Owner(), Fence: h.lease.Fence(), Since: state.Holder.Since, Label: "me"}
		if err != nil || state.Name != "orders" || !state.Held || state.Holder != want || state.Left != lockkeeper.DefaultTTL ||
			!state.Holder.Since.Equal(h.start) {
			t.Errorf("%+v, %v", state, err)
		}
		mustRelease(t, h.lease)
		if state, err = h.client.Inspect(t.Context(), "orders"); err != nil || state != (lockkeeper.State{Name: "orders"}) {
			t.Errorf("a free lock: %+v, %v", state, err)
		}
		h.server.Set(ordersKey, "x", 0)
		if state, err = h.client.Inspect(t.Context(), "orders"); err != nil || !state.Held || !state.Holder.Foreign || state.Left >= 0 {
			t.Errorf("a foreign lock without a TTL: %+v, %v", state, err)
		}
	})
}

// What cannot be read is an error of Redis, with the name; it is never a wrong state.
func TestInspectFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.server.Set("lockkeeper:for ever", "x", 0)
		for _, f := range []fault{fails(errNetwork), hangs, answers(nil, false), answers("OK", false), answers([]any{"5"}, false)} {
			h.wire.breaks(f)
			_, err := h.client.Inspect(t.Context(), "orders")
			wantErr(t, err, lockkeeper.ErrUnavailable)
			wantErr(t, h.client.Break(t.Context(), "orders", 5), lockkeeper.ErrUnavailable)
			wantErr(t, first(h.client.List(t.Context(), "*")), lockkeeper.ErrUnavailable)
			_, err = h.client.Election("orders").Leader(t.Context())
			wantErr(t, err, lockkeeper.ErrUnavailable)
			if !strings.Contains(err.Error(), `"orders"`) {
				t.Errorf("%q does not name the lock", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		h.wire.breaks(hangs)
		start := time.Now()
		_, err := h.client.Inspect(ctx, "orders")
		wantErr(t, err, context.DeadlineExceeded)
		wantTook(t, start, 10*ms)
	})
}

func TestListStopsWhenToldTo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{})
		for i := range 250 {
			mustTry(t, c.Mutex(fmt.Sprint(i)))
		}
		n := w.sent("state")
		for range c.List(t.Context(), "*") {
			break
		}
		if n = w.sent("state") - n; n != 1 {
			t.Errorf("%d requests for the first lock of many", n)
		}
	})
}

func TestErrorsInWords(t *testing.T) {
	held := &lockkeeper.HeldError{Name: "orders", Holder: lockkeeper.Holder{Foreign: true}, Left: -ms, Err: context.DeadlineExceeded}
	for want, err := range map[string]error{
		`lockkeeper: "orders" is held by a holder that is not Lockkeeper, without a TTL (context deadline exceeded)`: held,
		`lockkeeper: "orders" is held by me (fence 7), 3s left unless renewed`: &lockkeeper.HeldError{
			Name: "orders", Holder: lockkeeper.Holder{Owner: "x", Fence: 7, Label: "me"}, Left: 3 * time.Second},
		`lockkeeper: lease on "orders" (fence 7) lost: no renewal was answered in time: connection reset by peer`: &lockkeeper.LostError{
			Name: "orders", Fence: 7, Reason: "no renewal was answered in time", Err: errNetwork},
		`lockkeeper: acquire "orders": no usable answer from Redis: OOM x (maxmemory is reached: raise it or free memory; keep locks on a server with noeviction)`: &lockkeeper.UnavailableError{
			Op: "acquire", Name: "orders", Err: replies("OOM x")},
		`BUSYKEY whatever`: replies("BUSYKEY whatever"),
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}
