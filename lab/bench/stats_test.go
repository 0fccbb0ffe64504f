package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestJain(t *testing.T) {
	for _, test := range []struct {
		shares []int64
		want   float64
	}{
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
		{[]int64{1, 3}, 0.8},
		{[]int64{7}, 1},
	} {
		if got := jain(test.shares); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("jain(%v) = %v, want %v", test.shares, got, test.want)
		}
	}
	for _, nothing := range [][]int64{nil, {0, 0}} {
		if got := jain(nothing); !math.IsNaN(got) {
			t.Errorf("jain(%v) = %v, want NaN", nothing, got)
		}
	}
}

func TestMedian(t *testing.T) {
	values := []float64{3, 1, 2}
	if got := median(values); got != 2 {
		t.Errorf("median of three = %v", got)
	}
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Error("median sorts what it was given")
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median of four = %v", got)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of none = %v", got)
	}
}

// TestHistogram compares quantiles with those of the sorted values.
func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var whole, a, b histogram
	var values []int64
	for range 20_000 {
		ns := int64(math.Exp(random.Float64() * 24)) // from 1 ns to 26 s
		values = append(values, ns)
		whole.add(ns)
		if random.IntN(2) == 0 {
			a.add(ns)
		} else {
			b.add(ns)
		}
	}
	slices.Sort(values)
	a.merge(&b)
	if a != whole {
		t.Error("two halves that are merged differ from the whole")
	}
	for _, q := range []float64{0, 0.01, 0.5, 0.99, 0.999, 1} {
		want := float64(values[max(int(math.Ceil(q*float64(len(values))))-1, 0)])
		if got := whole.quantile(q); math.Abs(got-want) > 0.005*want+0.5 {
			t.Errorf("quantile(%v) = %v, want %v", q, got, want)
		}
	}
}

func TestHistogramEdges(t *testing.T) {
	var h histogram
	if got := h.quantile(0.5); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v", got)
	}
	h.add(-5) // two readings of a clock on two CPUs
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("median of a negative value = %v", got)
	}
	h.add(math.MaxInt64)
	if got := h.quantile(1); got <= 0 {
		t.Errorf("the largest value = %v", got)
	}
	for i := range 40 * subBuckets {
		ns := int64(math.Round(middle(i)))
		if got := bucket(ns); got != i {
			t.Fatalf("bucket %d stands for %d ns, which is in bucket %d", i, ns, got)
		}
	}
}

func TestHistogramBetweenProcesses(t *testing.T) {
	var h, copied histogram
	for ns := range int64(1000) {
		h.add(ns * ns)
	}
	encoded, err := json.Marshal(h.sparse())
	if err != nil {
		t.Fatal(err)
	}
	var s sparse
	if err := json.Unmarshal(encoded, &s); err != nil {
		t.Fatal(err)
	}
	copied.addSparse(s)
	if copied != h {
		t.Error("the histogram has changed on its way")
	}
}
