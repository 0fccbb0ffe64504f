package redistest

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A Target is what a client has to connect to.
type Target struct {
	Addr     string
	User     string // empty means the default user
	Password string // empty means none
	DB       int
	TLS      *tls.Config // nil means none
}

// Suite checks that what open returns does on a real server, and on a network that
// breaks, what lockkeeper.Conn and lockkeeper.Scanner promise, and that it connects
// in every way that a Target asks for. A client that open makes must be one with
// the default options, and be closed by t.Cleanup. open fails the test when it
// can't connect, or leaves that to the first call.
func Suite(t *testing.T, open func(t *testing.T, to Target) lockkeeper.Conn) {
	for name, run := range map[string]func(*suite, *testing.T){
		"replies":                            (*suite).replies,
		"server errors":                      (*suite).serverErrors,
		"permissions":                        (*suite).permissions,
		"connection options":                 (*suite).options,
		"concurrent calls":                   (*suite).concurrent,
		"deadline on a paused server":        (*suite).deadline,
		"deadline while connecting":          (*suite).deadlineWhileConnecting,
		"late reply":                         (*suite).lateReply,
		"other errors are not the context's": (*suite).plainErrors,
		"no retry":                           (*suite).noRetry,
		"listen":                             (*suite).listen,
		"listen and broken wire":             (*suite).listenBroken,
		"listen in a hole":                   (*suite).listenInHole,
		"scan":                               (*suite).scan,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(&suite{open}, t)
		})
	}
}

type suite struct {
	open func(t *testing.T, to Target) lockkeeper.Conn
}

// soon is how late a call may end that must end at once, on a machine that runs
// many tests under the race detector.
const soon = 2 * time.Second

// proxied returns a server, a proxy in front of it, and a Conn through the proxy
// that has made the connections that it makes for one call at a time. A client may
// choose among several at random, hence the number.
func (s *suite) proxied(t *testing.T) (*Server, *Proxy, lockkeeper.Conn) {
	t.Helper()
	server := Start(t)
	proxy := NewProxy(t, server.Addr())
	conn := s.open(t, Target{Addr: proxy.Addr()})
	for range 64 {
		mustEval(t, conn, "return 1", []string{"key"})
	}
	return server, proxy, conn
}

func mustEval(t *testing.T, conn lockkeeper.Conn, src string, keysAndArgs ...[]string) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	both := append(keysAndArgs, nil, nil) // those that are missing
	reply, err := conn.Eval(ctx, src, both[0], both[1])
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return reply
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if code, _ := replyCode(err); code != want {
		t.Errorf("error %v, want one of the server with the code %s", err, want)
	}
}

func (s *suite) replies(t *testing.T) {
	conn := s.open(t, Target{Addr: Start(t).Addr()})
	for script, want := range map[string]any{
		`return nil`:                                nil,
		`return false`:                              nil,
		`return true`:                               int64(1),
		`return 42`:                                 int64(42),
		`return -7`:                                 int64(-7),
		`return 9007199254740992`:                   int64(1 << 53),
		`return 'text'`:                             "text",
		`return ''`:                                 "",
		`return '9007199254740993'`:                 "9007199254740993",
		`return redis.status_reply('FINE')`:         "FINE",
		`return redis.call('SET', KEYS[1], 'x')`:    "OK",
		`return redis.call('GET', 'no such key')`:   nil,
		`return {}`:                                 []any{},
		`return {1, 'b', false, {2, {false}}, '' }`: []any{int64(1), "b", nil, []any{int64(2), []any{nil}}, ""},
		`return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], #KEYS, #ARGV}`: []any{
			"k\x00\r\n {}", "k 2", "\xff\xfe\r\n'\"", "", int64(2), int64(2)},
	} {
		got := mustEval(t, conn, script, []string{"k\x00\r\n {}", "k 2"}, []string{"\xff\xfe\r\n'\"", ""})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", script, got, want)
		}
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprint("argument ", i)
	}
	if got := mustEval(t, conn, `return {#KEYS, #ARGV, KEYS[100], ARGV[100]}`, many, many); !reflect.DeepEqual(
		got, []any{int64(100), int64(100), many[99], many[99]}) {
		t.Errorf("with 100 keys and 100 arguments: got %#v", got)
	}
	if got := mustEval(t, conn, `return {#KEYS, #ARGV}`); !reflect.DeepEqual(got, []any{int64(0), int64(0)}) {
		t.Errorf("without keys and arguments: got %#v", got)
	}
}

func (s *suite) serverErrors(t *testing.T) {
	conn := s.open(t, Target{Addr: Start(t).Addr()})
	const src = `return 'known now'`
	sha := fmt.Sprintf("%x", sha1.Sum([]byte(src)))
	_, err := conn.EvalSha(t.Context(), sha, nil, nil)
	wantCode(t, err, "NOSCRIPT")
	mustEval(t, conn, src)
	if got, err := conn.EvalSha(t.Context(), sha, nil, nil); got != "known now" || err != nil {
		t.Errorf("EvalSha after Eval: %v, %v", got, err)
	}
	for script, want := range map[string]*lockkeeper.ReplyError{
		`return redis.error_reply('MINE not today')`:    {Code: "MINE", Message: "MINE not today"},
		`return redis.error_reply('ERR in a script')`:   {Code: "ERR", Message: "ERR in a script"},
		`return {1, redis.error_reply('NESTED in it')}`: {Code: "NESTED", Message: "NESTED in it"},
	} {
		_, err := conn.Eval(t.Context(), script, nil, nil)
		var got *lockkeeper.ReplyError
		if !errors.As(err, &got) || *got != *want {
			t.Errorf("%s: error %#v, want %#v", script, err, want)
		}
	}
	mustEval(t, conn, `return redis.call('SET', KEYS[1], 'text')`, []string{"key"})
	_, err = conn.Eval(t.Context(), `return redis.call('RPUSH', KEYS[1], 1)`, []string{"key"}, nil)
	wantCode(t, err, "WRONGTYPE")
	_, err = conn.Eval(t.Context(), `return redis.call('INCR', KEYS[1])`, []string{"key"}, nil)
	wantCode(t, err, "ERR")
	_, err = conn.Eval(t.Context(), `return nonsense(`, nil, nil)
	wantCode(t, err, "ERR")
}

func (s *suite) permissions(t *testing.T) {
	server := Start(t, Args("--requirepass", "secret",
		"--user", "worker", "on", ">pw", "~lock:*", "resetchannels", "&lock:*", "+@all"))
	conn := s.open(t, Target{Addr: server.Addr(), User: "worker", Password: "pw"})
	mustEval(t, conn, `return redis.call('SET', KEYS[1], 1)`, []string{"lock:a"})
	_, err := conn.Eval(t.Context(), `return redis.call('SET', KEYS[1], 1)`, []string{"other"}, nil)
	wantCode(t, err, "NOPERM")
	err = conn.Listen(t.Context(), "other", func() { t.Error("ready was called") }, func(string) {})
	wantCode(t, err, "NOPERM")
	server.Do(t, "ACL", "SETUSER", "worker", "-eval")
	_, err = conn.Eval(t.Context(), `return 1`, nil, nil)
	wantCode(t, err, "NOPERM")
}

func (s *suite) options(t *testing.T) {
	const script = `redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])`
	acl := Args("--user", "worker", "on", ">pw", "~*", "&*", "+@all", "--user", "default", "off")
	password := Args("--requirepass", "secret")
	for name, c := range map[string]struct {
		opts []Option
		to   Target
	}{
		"plain":    {},
		"password": {[]Option{password}, Target{Password: "secret"}},
		"user":     {[]Option{acl}, Target{User: "worker", Password: "pw"}},
		"database": {nil, Target{DB: 3}},
		"TLS":      {[]Option{TLS()}, Target{}},
		"all":      {[]Option{TLS(), acl}, Target{User: "worker", Password: "pw", DB: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			server := Start(t, c.opts...)
			to := c.to
			to.Addr, to.TLS = server.Addr(), server.TLSConfig()
			conn := s.open(t, to)
			if got := mustEval(t, conn, script, []string{"key"}, []string{name}); got != name {
				t.Errorf("got %v, want %v", got, name)
			}
			direct := NewConn(to.Addr)
			direct.User, direct.Password, direct.DB, direct.TLS = to.User, to.Password, to.DB, to.TLS
			defer direct.Close()
			if got, err := direct.Do(t.Context(), "GET", "key"); got != name || err != nil {
				t.Errorf("in database %d the key is %v, %v", to.DB, got, err)
			}
		})
	}
}

func (s *suite) concurrent(t *testing.T) {
	conn := s.open(t, Target{Addr: Start(t).Addr()})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				want := []any{fmt.Sprint("key ", i), fmt.Sprint("value ", j)}
				got, err := conn.Eval(ctx, `return {KEYS[1], ARGV[1]}`,
					[]string{want[0].(string)}, []string{want[1].(string)})
				cancel()
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
			}
		})
	}
	wg.Wait()
}
