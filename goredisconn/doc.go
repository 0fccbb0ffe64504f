// Package goredisconn connects Lockkeeper to Redis through go-redis.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	defer rdb.Close()
//	locks, err := lockkeeper.New(goredisconn.New(rdb), lockkeeper.Config{})
//
// # Options
//
// Everything about the server is set in the client's own options:
//
//	redis.NewClient(&redis.Options{
//		Addr:      "redis.example.com:6379",
//		Username:  "worker",             // an ACL user; empty is the default user
//		Password:  os.Getenv("REDIS_PASSWORD"),
//		DB:        2,                    // the database's number
//		TLSConfig: &tls.Config{ServerName: "redis.example.com"},
//	})
//
// The same from a URL, where rediss stands for TLS:
//
//	opts, err := redis.ParseURL("rediss://worker:secret@redis.example.com:6379/2")
//	// ...
//	rdb := redis.NewClient(opts)
//
// # Time
//
// The deadline of a context ends a call, whatever the client's options say. By
// default go-redis looks at deadlines only while it waits for a connection, and
// then reads for up to Options.ReadTimeout; [New] says how that is overcome.
// ReadTimeout and WriteTimeout hold as well, whichever comes first.
//
// Cancelling a context that has no deadline is noticed only before a request is
// sent.
package goredisconn
