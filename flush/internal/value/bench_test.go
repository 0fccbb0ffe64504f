package value

import "testing"

// The cost of a value. Text, int64 and bool allocate nothing but the interface.
func BenchmarkConvert(b *testing.B) {
	for _, bench := range []struct{ typ, value string }{
		{"text", "Grace Hopper of the fourth floor"},
		{"int64", "1234567890123"},
		{"bool", "true"},
		{"decimal(12,2)", "1234.56"},
		{"float64", "0.15"},
		{"timestamp", "2006-01-02T15:04:05.999999Z"},
		{"timestamp(ms)", "1700000000123"},
		{"uuid", "0123abcd-89ef-4567-8901-abcdef012345"},
		{"json", `{"name":"Grace","tags":["a","b"],"n":1.5}`},
	} {
		typ := parse(b, bench.typ)
		b.Run(bench.typ, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := typ.Convert(bench.value, Rules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		typ, value string
		most       float64
	}{
		{"text", "Grace Hopper", 1},
		{"int64", "1234567890123", 1},
		{"uint64", "1234567890123", 1},
		{"bool", "TRUE", 0},
		{"decimal(12,2)", "1234.56", 1},
		{"date", "2006-01-02", 1},
		{"uuid", "0123abcd-89ef-4567-8901-abcdef012345", 1},
	} {
		typ := parse(t, test.typ)
		got := testing.AllocsPerRun(100, func() {
			if _, err := typ.Convert(test.value, Rules{}); err != nil {
				t.Fatal(err)
			}
		})
		if got > test.most {
			t.Errorf("%s: %v allocations, want %v at most", test.typ, got, test.most)
		}
	}
}
