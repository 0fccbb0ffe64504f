package main

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// jain returns Jain's fairness index: 1 when all have the same, 1/n when one has
// all. It is NaN when nobody has anything.
func jain(shares []int64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// median returns the middle value, or the mean of the two in the middle. It is NaN
// without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// mean is NaN without values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, x := range values {
		sum += x
	}
	return sum / float64(len(values))
}

// maximum is NaN without values.
func maximum(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Max(values)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// subBuckets is how many buckets of a histogram have values of the same magnitude.
// A value is known to half a bucket, 0.4 %.
const (
	subBucketBits = 7
	subBuckets    = 1 << subBucketBits
)

// A histogram counts durations in nanoseconds, in constant space and without
// allocating, so that recording doesn't disturb what is measured.
type histogram struct {
	counts [48 * subBuckets]uint32
	max    int64
}

func (h *histogram) add(ns int64) {
	ns = max(ns, 0)
	h.counts[bucket(ns)]++
	h.max = max(h.max, ns)
}

// bucket returns the index for a value: the value itself for small ones, then its
// magnitude and the bits after its first.
func bucket(ns int64) int {
	shift := max(0, bits.Len64(uint64(ns))-subBucketBits-1)
	return min(shift<<subBucketBits+int(ns>>shift), 48*subBuckets-1)
}

// middle returns the value that a bucket stands for.
func middle(bucket int) float64 {
	shift := max(0, bucket>>subBucketBits-1)
	low := int64(bucket-shift<<subBucketBits) << shift
	return float64(low) + (float64(int64(1)<<shift)-1)/2
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.max = max(h.max, other.max)
}

// quantile returns the q-quantile in nanoseconds, or NaN when nothing was added.
func (h *histogram) quantile(q float64) float64 {
	var total int64
	for _, n := range h.counts {
		total += int64(n)
	}
	rank, seen := int64(math.Ceil(q*float64(total))), int64(0)
	for i, n := range h.counts {
		if seen += int64(n); n > 0 && seen >= max(rank, 1) {
			return min(middle(i), float64(h.max))
		}
	}
	return math.NaN()
}

// sparse is a histogram as it is sent between processes.
type sparse struct {
	Counts map[int]uint32 `json:"counts"`
	Max    int64          `json:"max"`
}

func (h *histogram) sparse() sparse {
	s := sparse{Counts: map[int]uint32{}, Max: h.max}
	for i, n := range h.counts {
		if n > 0 {
			s.Counts[i] = n
		}
	}
	return s
}

func (h *histogram) addSparse(s sparse) {
	for i, n := range s.Counts {
		if i >= 0 && i < len(h.counts) {
			h.counts[i] += n
		}
	}
	h.max = max(h.max, s.Max)
}
