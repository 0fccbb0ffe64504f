package core

// A Waiter is one call that wants the lock.
type Waiter struct {
	Call any // the shell's own object
	Kind Kind

	queued     bool
	next, prev *Waiter
}

// The calls of a line, in their order.

func (l *Line) push(w *Waiter) {
	w.queued, w.prev, w.next = true, l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.n++
}

func (l *Line) pop() *Waiter {
	w := l.first
	l.remove(w)
	return w
}

func (l *Line) remove(w *Waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	l.n--
}
