package demo

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options say what to show.
type Options struct {
	Seconds float64        // how long the writer writes
	Workers int            // worker processes; at least 3
	Rate    int            // writes a second
	TTL     time.Duration  // of the lock
	Redis   *redis.Options // a real server; nil: the embedded one
	DB      string         // path of the SQLite file; "": in a temporary folder
	Input   string         // JSON lines to feed the writer from; "": made-up items
	Keep    bool           // leave the database and the keys behind

	Executable string     // this program, which also is the workers'
	WorkerArgs []string   // its arguments that make it a worker
	Screen     io.Writer  // where progress is shown
	Live       bool       // Screen is a terminal that can be redrawn
	Color      bool       // and takes colours
	Width      func() int // of the terminal
	Logger     *slog.Logger
}

// ErrUsage is returned for options that can't be right.
var ErrUsage = errors.New("demo: invalid options")

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrUsage}, args...)...))
	}
	if o.Workers < 3 || o.Workers > 32 {
		bad("--workers %d: 3 to 32: one is killed and one is stopped, and somebody has to take over", o.Workers)
	}
	if o.Rate < 1 || o.Rate > 20000 {
		bad("--rate %d: 1 to 20000 writes a second", o.Rate)
	}
	if o.TTL < 200*time.Millisecond || o.TTL > time.Minute || o.TTL%time.Millisecond != 0 {
		bad("--ttl %s: 200ms to 1m, in whole milliseconds", o.TTL)
	}
	if least := 4 * o.TTL.Seconds(); o.Seconds < least || o.Seconds > 3600 {
		bad("--seconds %g: %g (four times the TTL) to 3600", o.Seconds, least)
	}
	return errors.Join(errs...)
}

// A server is how to reach Redis, in a form that can be handed to a worker.
type server struct {
	Network  string `json:"network"`
	Addr     string `json:"addr"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	DB       int    `json:"db,omitempty"`
	TLSName  string `json:"tls_name,omitempty"`
	TLS      bool   `json:"tls,omitempty"`
}

func serverOf(o *redis.Options) server {
	s := server{Network: o.Network, Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB}
	if o.TLSConfig != nil {
		s.TLS, s.TLSName = true, o.TLSConfig.ServerName
	}
	return s
}

func (s *server) client() *redis.Client {
	o := &redis.Options{Network: s.Network, Addr: s.Addr, Username: s.Username, Password: s.Password, DB: s.DB}
	// A server that is gone must hold nothing up for long: all parts try again themselves.
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 3*time.Second, 3*time.Second, 3*time.Second
	o.MaxRetries, o.DialerRetries = 1, 1
	if s.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.TLSName}
	}
	return redis.NewClient(o)
}
