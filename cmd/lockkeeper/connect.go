package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/goredisconn"
)

const defaultRedis = "redis://127.0.0.1:6379"

// redisURLs is the value of --redis. It can be given several times, to be told that
// this comes later.
type redisURLs []string

// String shows the default and no value: that can have a password.
func (u *redisURLs) String() string { return defaultRedis }

// Set adds one.
func (u *redisURLs) Set(text string) error {
	*u = append(*u, text)
	return nil
}

// Type is what the help calls the value.
func (u *redisURLs) Type() string { return "URL" }

// A server is a connection to one Redis server.
type server struct {
	rdb     *redis.Client
	conn    *goredisconn.Conn
	address string // for people, without a password
}

func (s *server) close() { _ = s.rdb.Close() } // nothing is on its way any more

// connect makes a client as the flags say. It sends nothing.
func (a *app) connect() (*server, error) {
	opts, err := parseRedis(a.redis)
	if err != nil {
		return nil, err
	}
	if err := a.setPassword(opts); err != nil {
		return nil, err
	}
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = -1   // who asks decides
	opts.DialerRetries = 1 // likewise
	opts.DialTimeout = 3 * time.Second
	rdb := redis.NewClient(opts)
	return &server{rdb: rdb, conn: goredisconn.New(rdb), address: addressOf(opts)}, nil
}

func addressOf(o *redis.Options) string {
	if o.DB != 0 {
		return o.Addr + "/" + strconv.Itoa(o.DB)
	}
	return o.Addr
}

// parseRedis reads the URL. Nothing of it is repeated in errors, nor what the URL
// parsers say: any part of a URL that is wrong can be a piece of a password.
func parseRedis(urls []string) (*redis.Options, error) {
	url := defaultRedis
	switch {
	case len(urls) == 1:
		url = urls[0]
	case len(urls) > 1:
		return nil, errQuorum
	}
	scheme, rest, _ := strings.Cut(url, "://")
	switch strings.ToLower(scheme) {
	case "redis", "rediss", "unix":
	case "redis-sentinel", "rediss-sentinel":
		return nil, usagef("%s:// comes later; now give the URL of the primary itself, as redis://host:port", scheme)
	case "redis+cluster", "rediss+cluster", "redis-cluster", "rediss-cluster":
		return nil, usagef("%s:// comes later; now use a server that is no cluster, as redis://host:port", scheme)
	default:
		return nil, usagef("the URL of Redis has to begin with redis://, rediss:// or unix://, as in %s", defaultRedis)
	}
	if strings.Contains(rest, "://") || strings.Contains(rest[strings.LastIndexByte(rest, '@')+1:], ",") {
		return nil, errQuorum
	}
	opts, err := redis.ParseURL(strings.ToLower(scheme) + "://" + rest)
	switch {
	case err == nil:
		return opts, nil
	case strings.Contains(err.Error(), "unexpected option"):
		return nil, usagef("the URL of Redis has an unknown option after the ?")
	}
	return nil, usagef("the URL of Redis can't be read; its form is redis://[user[:password]@]host[:port][/db]. " +
		"In a password write %%2F for /, %%23 for #, %%3F for ? and %%40 for @, or set " + envPassword + " instead")
}

var errQuorum = usagef("several Redis servers (a quorum) come later; now give one URL, as redis://host:port")

// setPassword adds the password that is not in the URL: from the file that a flag
// names, which wins, or from the environment, which wins over nothing.
func (a *app) setPassword(opts *redis.Options) error {
	if a.passwordFile == "" {
		if opts.Password == "" {
			opts.Password = a.env[envPassword]
		}
		return nil
	}
	text, err := os.ReadFile(a.passwordFile)
	if err != nil {
		return usagef("the password of Redis: %w", err)
	}
	opts.Password = strings.TrimRight(string(text), "\r\n")
	if opts.Password == "" {
		return usagef("the password of Redis: the file %s is empty", a.passwordFile)
	}
	return nil
}

// locks makes a lock client on a connection to the server.
func (a *app) locks(conn lockkeeper.Conn, ttl time.Duration) (*lockkeeper.Client, error) {
	return lockkeeper.New(conn, lockkeeper.Config{Prefix: a.keyPrefix(), TTL: ttl, Logger: a.log})
}

// explain says in one sentence what Redis did, where it is, and what to do.
func (s *server) explain(err error) error {
	if err == nil || errors.Is(err, lockkeeper.ErrInvalid) {
		return err
	}
	var reply *lockkeeper.ReplyError
	if errors.As(err, &reply) {
		return unavailableError{fmt.Errorf("the Redis server at %s refuses: %w%s", s.address, reply, remedy(reply))}
	}
	advice := "is it running, and is --redis right?"
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		advice = "is it too busy, or is a firewall in between?"
	}
	return unavailableError{fmt.Errorf("no answer from Redis at %s: %w; %s", s.address, root(err), advice)}
}

// remedy adds what this program can do about an error of the server.
func remedy(reply *lockkeeper.ReplyError) string {
	switch {
	case reply.Code == "NOAUTH" || strings.Contains(reply.Message, "unauthenticated"):
		return "; set " + envPassword + ", or use --redis-password-file"
	case reply.Code == "WRONGPASS":
		return "; see " + envPassword + " and --redis-password-file"
	}
	return ""
}

// root returns the error of the network that is behind an error, or the error.
func root(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	return err
}
