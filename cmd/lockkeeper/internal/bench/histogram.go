package bench

import (
	"math/bits"
	"time"
)

// A histogram counts times, of which there can be millions. Each is kept to within one
// part in 64.
type histogram struct {
	counts [64 * 59]int64
	n      int64
	most   time.Duration
}

// fine is how many bits of a time are kept, the first of which is always set.
const fine = 7

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.most = max(h.most, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.most = max(h.most, other.most)
}

// percentile returns a time that a share of all does not exceed.
func (h *histogram) percentile(share float64) time.Duration {
	rank, seen := int64(float64(h.n)*share), int64(0)
	for i, n := range h.counts {
		if seen += n; seen > rank {
			return min(middle(i), h.most)
		}
	}
	return h.most
}

// bucket returns where a time is counted.
func bucket(v uint64) int {
	shift := max(0, bits.Len64(v)-fine)
	return shift<<(fine-1) + int(v>>shift)
}

// middle returns the time in the middle of a bucket.
func middle(i int) time.Duration {
	shift := max(0, i>>(fine-1)-1)
	low := uint64(i-shift<<(fine-1)) << shift
	return time.Duration(low + (uint64(1)<<shift)/2)
}
