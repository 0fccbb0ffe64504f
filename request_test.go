package lockkeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

func newRequest(d time.Duration) (*request, context.CancelFunc) {
	parent, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	return &request{Context: parent, deadline: time.Now().Add(d)}, cancel
}

func TestRequestEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, cancel := newRequest(time.Second)
		defer r.free()
		start := time.Now()
		if deadline, ok := r.Deadline(); !ok || !deadline.Equal(start.Add(time.Second)) || r.Err() != nil {
			t.Errorf("deadline %v %t, err %v", deadline, ok, r.Err())
		}
		cancel() // the caller's cancellation does not touch it
		if r.Value(key{}) != "value" {
			t.Error("the caller's values are lost")
		}
		<-r.Done()
		if took := time.Since(start); took != time.Second || r.Err() != context.DeadlineExceeded {
			t.Errorf("ended after %s with %v", took, r.Err())
		}
	})
}

func TestRequestNobodyAsksFor(t *testing.T) {
	r, cancel := newRequest(time.Hour)
	defer cancel()
	r.free()
	r.free()
	if r.timer != nil {
		t.Error("a timer was made")
	}
	// A driver that goes on after it returned is told to stop.
	select {
	case <-r.Done():
	default:
		t.Error("Done is not closed")
	}
	if r.Err() != context.Canceled {
		t.Errorf("err is %v", r.Err())
	}
}

// Package context panics when a parent's Done is closed and its Err is nil. A
// driver that derives a context leaves a goroutine of that package behind, which
// looks at the parent when the request is over.
func TestRequestAsAParent(t *testing.T) {
	for range 2000 {
		r, cancel := newRequest(time.Hour)
		child, cancelChild := context.WithTimeout(r, time.Minute)
		stop := context.AfterFunc(r, func() {})
		r.free()
		if err := r.Err(); err == nil {
			t.Fatal("no error though Done is closed")
		}
		<-child.Done()
		if !errors.Is(child.Err(), context.Canceled) {
			t.Fatalf("the child ended with %v", child.Err())
		}
		stop()
		cancelChild()
		cancel()
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		reply any
		want  int64
	}{
		{int64(7), 7}, {"7", 7}, {"1796062911501180", 1796062911501180},
		{nil, 0}, {"", 0}, {"x", 0}, {"99999999999999999999", 0}, {[]any{int64(7)}, 0}, {7, 0},
	} {
		if got := number(tt.reply); got != tt.want {
			t.Errorf("number(%#v) is %d, want %d", tt.reply, got, tt.want)
		}
	}
}
