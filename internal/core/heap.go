package core

// The keeper's heap, by when each lease has to be looked at. It is not
// container/heap: a lease knows its place, and nothing is boxed.

func (k *Keeper) less(i, j int) bool { return k.heap[i].next() < k.heap[j].next() }

func (k *Keeper) swap(i, j int) {
	k.heap[i], k.heap[j] = k.heap[j], k.heap[i]
	k.heap[i].at, k.heap[j].at = i, j
}

func (k *Keeper) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !k.less(i, parent) {
			return
		}
		k.swap(i, parent)
		i = parent
	}
}

func (k *Keeper) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(k.heap) {
			return
		}
		if right := child + 1; right < len(k.heap) && k.less(right, child) {
			child = right
		}
		if !k.less(child, i) {
			return
		}
		k.swap(i, child)
		i = child
	}
}

// fix puts the lease at i where it belongs after its time changed.
func (k *Keeper) fix(i int) {
	k.up(i)
	k.down(i)
}

func (k *Keeper) remove(l *Lease) {
	i, last := l.at, len(k.heap)-1
	if i < 0 {
		return
	}
	k.swap(i, last)
	k.heap[last] = nil
	k.heap = k.heap[:last]
	l.at = -1
	if i < last {
		k.fix(i)
	}
}
