// Package rueidisconn connects Lockkeeper to Redis through rueidis.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	// ...
//	defer client.Close()
//	locks, err := lockkeeper.New(rueidisconn.New(client), lockkeeper.Config{})
//
// # Options
//
// Everything about the server is set in the client's own options:
//
//	rueidis.NewClient(rueidis.ClientOption{
//		InitAddress: []string{"redis.example.com:6379"},
//		Username:    "worker",           // an ACL user; empty is the default user
//		Password:    os.Getenv("REDIS_PASSWORD"),
//		SelectDB:    2,                  // the database's number
//		TLSConfig:   &tls.Config{ServerName: "redis.example.com"},
//	})
//
// The same from a URL, where rediss stands for TLS:
//
//	opts, err := rueidis.ParseURL("rediss://worker:secret@redis.example.com:6379/2")
//	// ...
//	client, err := rueidis.NewClient(opts)
//
// # Time
//
// The deadline of a context ends a call. A context that has a deadline is also the
// fast one: as long as there is one call at a time, rueidis then reads and writes
// in the caller's goroutine. The first call whose context can be cancelled but has
// no deadline, or that comes while another is in progress, sends that connection's
// requests through goroutines of its own from then on.
//
// ClientOption.ConnWriteTimeout, by default 10 s, is how long rueidis keeps a
// connection that gives no answer. After a network that lost it silently, calls
// fail for as long; a few seconds are a better value for locks. With
// ClientOption.ConnLifetime rueidis repeats a request that it finds on a connection
// that is being closed for its age, so leave that at 0.
package rueidisconn
