package goredisconn

import (
	"errors"
	"math/big"
	"reflect"
	"strconv"
	"testing"

	"github.com/lockkeeper/lockkeeper"
)

// A grower makes values as go-redis returns them, and beside each what becomes of it.
type grower struct{ bytes []byte }

func (g *grower) byte() byte {
	if len(g.bytes) == 0 {
		return 0
	}
	b := g.bytes[0]
	g.bytes = g.bytes[1:]
	return b
}

// errUnknown stands for a value that no server sends.
var errUnknown = errors.New("unknown")

// sentError is an error of the server, as go-redis has it.
type sentError string

func (e sentError) Error() string { return string(e) }
func (sentError) RedisError()     {}

func (g *grower) grow(depth int) (raw, want any, err error) {
	n := int64(g.byte())
	digits := strconv.FormatInt(n, 10)
	switch kind := g.byte() % 12; {
	case kind == 1:
		return n<<55 - n, n<<55 - n, nil
	case kind == 2:
		return digits, digits, nil
	case kind == 3:
		return string(g.bytes), string(g.bytes), nil
	case kind == 4:
		return n%2 == 1, n % 2, nil
	case kind == 5:
		return float64(n) / 4, strconv.FormatFloat(float64(n)/4, 'g', 17, 64), nil
	case kind == 6:
		huge := new(big.Int).Lsh(big.NewInt(n), 100)
		return huge, huge.String(), nil
	case kind == 7:
		line := "OOPS " + digits
		return sentError(line), nil, lockkeeper.NewReplyError(line)
	case kind == 8:
		return []string{"no reply has this type"}, nil, errUnknown
	case kind == 9 && depth < 4: // one pair: a map has no order
		value, wantValue, err := g.grow(depth + 1)
		return map[any]any{digits: value}, []any{digits, wantValue}, err
	case kind > 9 && depth < 4:
		return g.array(int(n%6), depth)
	}
	return nil, nil, nil
}

func (g *grower) array(n, depth int) (raw, want any, first error) {
	values, wants := make([]any, n), make([]any, n)
	for i := range values {
		var err error
		if values[i], wants[i], err = g.grow(depth + 1); first == nil {
			first = err
		}
	}
	return values, wants, first
}

// FuzzReply: every reply comes out as nil, int64, string or a list of these, with nothing
// lost, or as the error that is in it.
func FuzzReply(f *testing.F) {
	f.Add([]byte{5, 11, 1, 1, 2, 2, 3, 4, 9, 5, 8, 6})          // one of each
	f.Add([]byte{3, 11, 2, 11, 1, 7, 0, 8, 1, 2})               // an error inside
	f.Add([]byte{1, 9, 1, 9, 2, 10, 7, 5, 200, 1})              // maps
	f.Add([]byte{255, 1})                                       // a large number
	f.Add([]byte{4, 3, 'a', '\r', '\n', 0xff, 0})               // bytes
	f.Add([]byte{1, 11, 1, 11, 1, 11, 1, 11, 1, 11, 1, 11, 42}) // deep
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, want, wantErr := (&grower{data}).grow(0)
		got, err := reply(raw)
		var sent, wantSent *lockkeeper.ReplyError
		switch {
		case wantErr == nil:
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%#v became %#v, %v; want %#v", raw, got, err, want)
			}
		case got != nil || err == nil || errors.As(err, &sent) != errors.As(wantErr, &wantSent):
			t.Errorf("%#v became %#v, %v; want %v", raw, got, err, wantErr)
		case sent != nil && *sent != *wantSent:
			t.Errorf("%#v became the error %v; want %v", raw, sent, wantSent)
		}
	})
}
