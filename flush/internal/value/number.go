package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// What a number may cost to read.
const (
	maxNumber   = 1000 // bytes
	maxExponent = 1000
)

// A number is what is written in a decimal number: 0.digits times ten to the power of
// point. The digits have no zero at either end, and are empty for 0.
type number struct {
	negative bool
	digits   []byte
	point    int
}

// parseNumber reads optional minus, digits, optional point and digits, optional exponent.
// It appends the digits to buf.
func parseNumber(s string, buf []byte) (number, error) {
	if len(s) > maxNumber {
		return number{}, fmt.Errorf("%s is longer than a number can be, %d bytes", quote(s), maxNumber)
	}
	rest, negative := strings.CutPrefix(s, "-")
	before, rest := leadingDigits(rest)
	after, ok := "", before != ""
	if tail, has := strings.CutPrefix(rest, "."); has {
		after, rest = leadingDigits(tail)
		ok = ok && after != ""
	}
	exponent := 0
	if rest != "" {
		var err error
		exponent, err = parseExponent(rest)
		ok = ok && err == nil
	}
	switch {
	case !ok:
		return number{}, fmt.Errorf("%s is not a decimal number", quote(s))
	case exponent < -maxExponent || exponent > maxExponent:
		return number{}, fmt.Errorf("%s has an exponent beyond %d", quote(s), maxExponent)
	}
	n := number{negative: negative, point: len(before) + exponent, digits: append(append(buf, before...), after...)}
	n.trim()
	return n, nil
}

// trim takes the zeros away from both ends.
func (n *number) trim() {
	for len(n.digits) > 0 && n.digits[0] == '0' {
		n.digits = n.digits[1:]
		n.point--
	}
	for len(n.digits) > 0 && n.digits[len(n.digits)-1] == '0' {
		n.digits = n.digits[:len(n.digits)-1]
	}
	if len(n.digits) == 0 {
		*n = number{}
	}
}

func leadingDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// parseExponent reads e or E, an optional sign and digits. What is far too large comes
// back as beyond the limit and not as an error.
func parseExponent(s string) (int, error) {
	if s[0] != 'e' && s[0] != 'E' || len(s) < 2 {
		return 0, strconv.ErrSyntax
	}
	sign, start := 1, 1
	switch s[1] {
	case '-':
		sign, start = -1, 2
	case '+':
		start = 2
	}
	digits, rest := leadingDigits(s[start:])
	if digits == "" || rest != "" {
		return 0, strconv.ErrSyntax
	}
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > 4 {
		return sign * (maxExponent + 1), nil
	}
	n := 0
	for _, c := range []byte(digits) {
		n = 10*n + int(c-'0')
	}
	return sign * n, nil
}

func (t Type) toDecimal(s string, round bool) (any, error) {
	if !t.decimalFits() {
		return nil, errInvalid(t)
	}
	var buf [80]byte
	n, err := parseNumber(s, buf[:0])
	if err != nil {
		return nil, err
	}
	if len(n.digits)-n.point > t.Scale {
		if !round {
			return nil, fmt.Errorf("%s has more than %s after the point", quote(s), digitCount(t.Scale))
		}
		n.round(t.Scale)
	}
	if n.point > t.Precision-t.Scale {
		return nil, fmt.Errorf("%s has more than %s before the point", quote(s), digitCount(t.Precision-t.Scale))
	}
	var out [MaxPrecision + 3]byte // with a minus, a zero and a point
	written := n.append(out[:0], t.Scale)
	if string(written) == s {
		return s, nil
	}
	return string(written), nil
}

func digitCount(n int) string {
	if n == 1 {
		return "1 digit"
	}
	return fmt.Sprintf("%d digits", n)
}

// round cuts the number after the digit number scale after the point, half away from
// zero. The number has more digits than that.
func (n *number) round(scale int) {
	keep := n.point + scale
	if keep < 0 {
		*n = number{}
		return
	}
	up := n.digits[keep] >= '5'
	n.digits = n.digits[:keep]
	if up {
		i := keep - 1
		for ; i >= 0 && n.digits[i] == '9'; i-- {
			n.digits[i] = '0'
		}
		if i >= 0 {
			n.digits[i]++
		} else {
			// All the digits were nines, or there are none: 0.99 becomes 1, and 0.06 becomes
			// 0.1. An append would move every number to the heap.
			n.digits = n.digits[:1]
			n.digits[0] = '1'
			n.point++
		}
	}
	n.trim()
}

// append writes the number with so many digits after the point. It has no more of them,
// and before the point no more than a type can have.
func (n *number) append(b []byte, scale int) []byte {
	if n.negative {
		b = append(b, '-')
	}
	if n.point <= 0 {
		b = append(b, '0')
	}
	for i := min(n.point, 0); i < n.point+scale || i < n.point; i++ {
		if i == n.point {
			b = append(b, '.')
		}
		if i < 0 || i >= len(n.digits) {
			b = append(b, '0')
		} else {
			b = append(b, n.digits[i])
		}
	}
	return b
}

// toFloat64 takes the spellings of a decimal: strconv would take hexadecimal, underscores,
// Inf and NaN.
func toFloat64(s string) (any, error) {
	var buf [40]byte
	n, err := parseNumber(s, buf[:0])
	if err != nil {
		return nil, err
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsInf(f, 0):
		return nil, fmt.Errorf("%s is too large for a float64", quote(s))
	case f == 0 && len(n.digits) > 0:
		return nil, fmt.Errorf("%s is too small for a float64", quote(s))
	}
	return f + 0, nil // -0 + 0 is 0
}
