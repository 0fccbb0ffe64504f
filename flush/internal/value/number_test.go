package value

import (
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"strings"
	"testing"
)

func TestDecimal(t *testing.T) {
	for _, test := range []struct{ typ, in, exact, rounded string }{ // "" is refused
		{"decimal(12,2)", "12.5", "12.50", "12.50"},
		{"decimal(12,2)", "12", "12.00", "12.00"},
		{"decimal(12,2)", "0012.50", "12.50", "12.50"},
		{"decimal(12,2)", "-12.500", "-12.50", "-12.50"},
		{"decimal(12,2)", "12.50", "12.50", "12.50"},
		{"decimal(12,2)", "0", "0.00", "0.00"},
		{"decimal(12,2)", "-0", "0.00", "0.00"},
		{"decimal(12,2)", "-0.00", "0.00", "0.00"},
		{"decimal(12,2)", "-0.001", "", "0.00"},
		{"decimal(12,2)", "-0.005", "", "-0.01"},
		{"decimal(12,2)", "0.005", "", "0.01"},
		{"decimal(12,2)", "0.0049999", "", "0.00"},
		{"decimal(12,2)", "0.0005", "", "0.00"},
		{"decimal(12,2)", "0.0009", "", "0.00"},
		{"decimal(12,2)", "0.994", "", "0.99"},
		{"decimal(12,2)", "0.995", "", "1.00"},
		{"decimal(12,2)", "9.995", "", "10.00"},
		{"decimal(12,2)", "1.095", "", "1.10"},
		{"decimal(12,2)", "0.095", "", "0.10"},
		{"decimal(12,2)", "9999999999.99", "9999999999.99", "9999999999.99"},
		{"decimal(12,2)", "9999999999.994", "", "9999999999.99"},
		{"decimal(12,2)", "9999999999.995", "", ""},
		{"decimal(12,2)", "10000000000", "", ""},
		{"decimal(12,2)", "1e3", "1000.00", "1000.00"},
		{"decimal(12,2)", "1E+3", "1000.00", "1000.00"},
		{"decimal(12,2)", "1.5E-1", "0.15", "0.15"},
		{"decimal(12,2)", "1.5E-2", "", "0.02"},
		{"decimal(12,2)", "150e-4", "", "0.02"},
		{"decimal(12,2)", "1500e-2", "15.00", "15.00"},
		{"decimal(12,2)", "0e1000", "0.00", "0.00"},
		{"decimal(12,2)", "0e0000000001000", "0.00", "0.00"},
		{"decimal(12,2)", "1e-1000", "", "0.00"},
		{"decimal(12,2)", "1e1000", "", ""},
		{"decimal(12,2)", "0e1001", "", ""},
		{"decimal(12,2)", "1e18446744073709551617", "", ""}, // 2^64+1
		{"decimal(12,2)", "0e-1001", "", ""},
		{"decimal(12,2)", "1" + strings.Repeat("0", 990) + "e-990", "1.00", "1.00"},
		{"decimal(12,2)", "0." + strings.Repeat("0", 990) + "1e991", "1.00", "1.00"},
		{"decimal(12,2)", strings.Repeat("0", 999) + "1", "1.00", "1.00"},
		{"decimal(12,2)", strings.Repeat("0", 1000) + "1", "", ""},
		{"decimal(3,0)", "12", "12", "12"},
		{"decimal(3,0)", "12.0", "12", "12"},
		{"decimal(3,0)", "120", "120", "120"},
		{"decimal(3,0)", "0.5", "", "1"},
		{"decimal(3,0)", "0.4", "", "0"},
		{"decimal(3,0)", "-0.4", "", "0"},
		{"decimal(3,0)", "999.4", "", "999"},
		{"decimal(3,0)", "999.5", "", ""},
		{"decimal(3,0)", "9.5", "", "10"},
		{"decimal(2,2)", "0.99", "0.99", "0.99"},
		{"decimal(2,2)", "0.995", "", ""},
		{"decimal(38,30)", "-12345678.123456789012345678901234567890", "-12345678.123456789012345678901234567890", "-12345678.123456789012345678901234567890"},
		{"decimal(38,0)", strings.Repeat("9", 38), strings.Repeat("9", 38), strings.Repeat("9", 38)},
		{"decimal(30,30)", "-0.000000000000000000000000000001", "-0.000000000000000000000000000001", "-0.000000000000000000000000000001"},
		{"decimal(12,2)", "+5", "", ""},
		{"decimal(12,2)", ".5", "", ""},
		{"decimal(12,2)", "5.", "", ""},
		{"decimal(12,2)", "1.2.3", "", ""},
		{"decimal(12,2)", "1e1.5", "", ""},
		{"decimal(12,2)", "1e1e1", "", ""},
		{"decimal(12,2)", "1.-5", "", ""},
		{"decimal(12,2)", "e5", "", ""},
		{"decimal(12,2)", "1 000", "", ""},
		{"decimal(12,2)", "$5", "", ""},
	} {
		for round, want := range map[bool]string{false: test.exact, true: test.rounded} {
			got, err := parse(t, test.typ).Convert(test.in, Rules{Round: round})
			if want == "" && err == nil || want != "" && got != want {
				t.Errorf("%s of %.60q, round %v: %v, %v; want %q", test.typ, test.in, round, got, err, want)
			}
		}
	}
}

// Against math/big, which knows nothing of how this one is made.
func TestDecimalRandom(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	digits := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "00123456789999"[rnd.Intn(14)]
		}
		return string(b)
	}
	taken, rounded := 0, 0
	for range 60_000 {
		p := 1 + rnd.Intn(MaxPrecision)
		typ := Type{Kind: Decimal, Precision: p, Scale: rnd.Intn(min(p, MaxScale) + 1)}
		s := []string{"", "-"}[rnd.Intn(2)] + digits(1+rnd.Intn(12))
		if rnd.Intn(3) > 0 {
			s += "." + digits(1+rnd.Intn(12))
		}
		if rnd.Intn(3) == 0 {
			s += fmt.Sprintf("e%d", rnd.Intn(31)-15)
		}
		value, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%q is nothing for math/big", s)
		}
		// FloatString rounds half away from zero.
		want := value.FloatString(typ.Scale)
		nearest, _ := new(big.Rat).SetString(want)
		if nearest.Sign() == 0 {
			want = strings.TrimPrefix(want, "-")
		}
		whole, _, _ := strings.Cut(strings.TrimPrefix(want, "-"), ".")
		fits := len(strings.TrimLeft(whole, "0")) <= typ.Precision-typ.Scale
		exact := nearest.Cmp(value) == 0
		for _, round := range []bool{false, true} {
			got, err := typ.Convert(s, Rules{Round: round})
			switch expect := fits && (exact || round); {
			case expect != (err == nil):
				t.Fatalf("%v of %q, round %v: %v, %v; want %q", typ, s, round, got, err, want)
			case expect && got != want:
				t.Fatalf("%v of %q, round %v: %v, want %q", typ, s, round, got, want)
			case expect && exact:
				taken++
			case expect:
				rounded++
			}
		}
	}
	if taken < 10_000 || rounded < 10_000 {
		t.Errorf("only %d taken and %d rounded: the input is not what it should be", taken, rounded)
	}
}

func TestFloat64(t *testing.T) {
	for s, want := range map[string]float64{
		"0": 0, "-0": 0, "-0.0e5": 0, "1": 1, "007": 7, "0.1": 0.1, "-1.5e3": -1500, "1E+2": 100, "1e-2": 0.01,
		"1.7976931348623157e308": math.MaxFloat64, "5e-324": math.SmallestNonzeroFloat64, "3e-324": math.SmallestNonzeroFloat64,
		"0e1000": 0, "0.1000000000000000055511151231257827": 0.1,
	} {
		got, err := Type{Kind: Float64}.Convert(s, Rules{})
		if f, ok := got.(float64); err != nil || !ok || f != want || math.Signbit(f) != math.Signbit(want) {
			t.Errorf("%q: %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "1e309", "-1e309", "2e-324", "1e-1000", "Inf", "nan", "0x1p4", "1_0", "+1", ".5", "5.", "1e", "1f", "1e5000"} {
		if got, err := (Type{Kind: Float64}).Convert(s, Rules{Round: true}); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}
