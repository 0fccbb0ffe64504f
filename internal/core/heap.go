package core

// A heap has on top what has to be looked at first. It is not container/heap: an
// item knows its place, so that it can be moved and removed.
type heap[T item] []T

// An item is in one heap at most. spot is where, and -1 outside.
type item interface {
	next() Instant
	spot() *int
}

func (h heap[T]) less(i, j int) bool { return h[i].next() < h[j].next() }

func (h heap[T]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].spot(), *h[j].spot() = i, j
}

func (h *heap[T]) add(x T) {
	*x.spot() = len(*h)
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

func (h heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heap[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h.less(right, child) {
			child = right
		}
		if !h.less(child, i) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

// fix puts the item at i where it belongs after its time changed.
func (h heap[T]) fix(i int) {
	if i < 0 {
		return
	}
	h.up(i)
	h.down(i)
}

func (h *heap[T]) remove(x T) {
	i, last := *x.spot(), len(*h)-1
	if i < 0 {
		return
	}
	h.swap(i, last)
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	*x.spot() = -1
	if i < last {
		h.fix(i)
	}
}
