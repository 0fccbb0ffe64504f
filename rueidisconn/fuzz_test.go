package rueidisconn

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
)

// A parrot is a server that answers each script with what it is told to say, and
// everything else with OK.
type parrot struct{ say chan string }

// dial returns a connection to it.
func (p *parrot) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go p.serve(ours) // ends with the connection
	return theirs, nil
}

func (p *parrot) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		answer := "+OK\r\n"
		switch strings.ToUpper(command[0]) {
		case "HELLO":
			answer = "%1\r\n$5\r\nproto\r\n:3\r\n"
		case "EVALSHA":
			answer = <-p.say
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		length, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, length+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		command[i] = string(b[:length])
	}
	return command, nil
}

// A grower makes replies as they are on the wire, and beside each what becomes of it.
type grower struct{ bytes []byte }

func (g *grower) byte() byte {
	if len(g.bytes) == 0 {
		return 0
	}
	b := g.bytes[0]
	g.bytes = g.bytes[1:]
	return b
}

func bulk(kind, s string) string { return kind + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

func (g *grower) grow(depth int) (sent string, want any, err error) {
	n := int64(g.byte())
	digits := strconv.FormatInt(n, 10)
	switch kind := g.byte() % 14; {
	case kind == 1:
		return ":" + strconv.FormatInt(n<<55-n, 10) + "\r\n", n<<55 - n, nil
	case kind == 2:
		return bulk("$", digits), digits, nil
	case kind == 3:
		return bulk("$", string(g.bytes)), string(g.bytes), nil
	case kind == 4:
		return "#" + string("ft"[n%2]) + "\r\n", n % 2, nil
	case kind == 5:
		return "," + digits + ".25\r\n", digits + ".25", nil
	case kind == 6:
		return "(" + digits + "00000000000000000000\r\n", digits + "00000000000000000000", nil
	case kind == 7:
		return "-OOPS " + digits + "\r\n", nil, lockkeeper.NewReplyError("OOPS " + digits)
	case kind == 8:
		return bulk("=", "txt:"+digits), digits, nil
	case kind == 9:
		return "+" + digits + "\r\n", digits, nil
	case kind == 10 && depth < 4: // one pair: a map has no order
		value, wantValue, err := g.grow(depth + 1)
		return "%1\r\n" + bulk("$", digits) + value, []any{digits, wantValue}, err
	case kind == 11 && depth < 4:
		return g.array("~", int(n%6), depth)
	case kind > 11 && depth < 4:
		return g.array("*", int(n%6), depth)
	}
	return "_\r\n", nil, nil
}

func (g *grower) array(kind string, n, depth int) (sent string, want any, first error) {
	wants := make([]any, n)
	sent = kind + strconv.Itoa(n) + "\r\n"
	for i := range wants {
		one, wanted, err := g.grow(depth + 1)
		if sent, wants[i] = sent+one, wanted; first == nil {
			first = err
		}
	}
	return sent, wants, first
}

// FuzzReply: every reply comes out as nil, int64, string or a list of these, with nothing
// lost, or as the error that is in it.
func FuzzReply(f *testing.F) {
	f.Add([]byte{5, 13, 1, 1, 2, 2, 3, 4, 9, 5, 8, 6})            // one of each
	f.Add([]byte{3, 13, 2, 12, 1, 7, 0, 8, 1, 2})                 // an error inside
	f.Add([]byte{1, 10, 1, 10, 2, 11, 7, 5, 200, 1, 5, 8, 6, 9})  // maps, a set, other strings
	f.Add([]byte{255, 1})                                         // a large number
	f.Add([]byte{4, 3, 'a', '\r', '\n', 0xff, 0})                 // bytes
	f.Add([]byte{1, 12, 1, 13, 1, 12, 1, 13, 1, 12, 1, 12, 1, 4}) // deep
	p := &parrot{make(chan string, 1)}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"parrot:1"}, DisableCache: true, PipelineMultiplex: -1,
		DialCtxFn: p.dial,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(client.Close)
	conn := New(client)
	f.Fuzz(func(t *testing.T, data []byte) {
		sent, want, wantErr := (&grower{data}).grow(0)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		p.say <- sent
		got, err := conn.EvalSha(ctx, "sha", nil, nil)
		var reply, wantReply *lockkeeper.ReplyError
		switch errors.As(wantErr, &wantReply); {
		case wantErr == nil:
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q became %#v, %v; want %#v", sent, got, err, want)
			}
		case got != nil || !errors.As(err, &reply) || *reply != *wantReply:
			t.Errorf("%q became %#v, %v; want %v", sent, got, err, wantErr)
		}
	})
}
