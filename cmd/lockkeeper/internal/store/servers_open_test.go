package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/internal/sqltest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

func TestParseServers(t *testing.T) {
	good := map[string]struct {
		kind sqlfence.Dialect
		want string
	}{
		"postgres://u:secret@host/db":                                  {sqlfence.Postgres, "postgres://u@host:5432/db"},
		"postgresql://u@host:6543/db?sslmode=verify-full":              {sqlfence.Postgres, "postgresql://u@host:6543/db"},
		"Postgres://u:secret@[::1]:1/db?sslmode=disable&pooler=true":   {sqlfence.Postgres, "postgres://u@[::1]:1/db"},
		"postgres://u%40x:sec%2Fret%23%3F@host/a%2Fb%20c?pooler=false": {sqlfence.Postgres, "postgres://u%40x@host:5432/a/b%20c"},
		"postgres://u:sec@ret@host/db":                                 {sqlfence.Postgres, "postgres://u@host:5432/db"},
		"mysql://u:secret@host/db?tls=true":                            {sqlfence.MySQL, "mysql://u@host:3306/db"},
		"mysql://u:secret@host:/db?":                                   {sqlfence.MySQL, "mysql://u@host:3306/db"},
		"mariadb://u:secret@10.0.0.1:3307/db?tls=skip-verify":          {sqlfence.MariaDB, "mariadb://u@10.0.0.1:3307/db"},
	}
	for text, tt := range good {
		d, err := store.Parse(text)
		if err != nil || d.Kind() != tt.kind || d.String() != tt.want {
			t.Errorf("Parse(%q) = %s %q, %v; want %s %q", text, d.Kind(), d, err, tt.kind, tt.want)
		}
		if strings.Contains(fmt.Sprint(d, d.WithPassword("secret")), "sec") {
			t.Errorf("Parse(%q) shows the password: %s", text, d)
		}
	}
	bad := map[string]string{
		"postgres:":                                                   "no user",
		"postgres://":                                                 "no user",
		"postgres://host/db":                                          "no user",
		"postgres://:secret@host/db":                                  "no user",
		"postgres://u:secret@/db":                                     "no host",
		"postgres:///db?host=/tmp":                                    "no user",
		"postgres://u:secret@a,b/db":                                  "several hosts",
		"postgres://u:secret@a:1,b:2/db":                              "several hosts",
		"postgres://u:secret@host":                                    "no database name",
		"postgres://u:secret@host/":                                   "no database name",
		"postgres://u:secret@host/?sslmode=x":                         "no database name",
		"postgres://u:secret@host/secret/secret":                      "more than one name",
		"postgres://u:secret@host:0/db":                               "port",
		"postgres://u:secret@host:65536/db":                           "port",
		"postgres://u:secret@host:99999999999999/db":                  "port",
		"postgres://u:secret@host:secret/db":                          "can't be read",
		"postgres://u:sec#ret@host/db":                                "can't be read",
		"postgres://u:12#ret@host/db":                                 "no user",
		"postgres://u:12/secret@host/db":                              "no user",
		"postgres://u:12?secret@host/db":                              "no user",
		"postgres://u:secret/1@host/db":                               "can't be read",
		"postgres://u:sec%ret@host/db":                                "can't be read",
		"postgres://u:secret@host/db#frag":                            "%23",
		"postgres://u:secret@host/d%00b":                              "zero byte",
		"postgres://u:secret@host/db?sslmode=secret":                  "the option sslmode is one of disable, allow, prefer",
		"postgres://u:secret@host/db?sslmode=":                        "the option sslmode is one of",
		"postgres://u:secret@host/db?pooler=secret":                   "the option pooler is one of true, false",
		"postgres://u:secret@host/db?sslmod=require":                  `unknown option "sslmod"; PostgreSQL has pooler, sslmode`,
		"postgres://u:secret@host/db?tls=true":                        `unknown option "tls"`,
		"postgres://u:secret@host/db?sslmode=require&sslmode=require": "there twice",
		"postgres://u:secret@host/db?a;b":                             "options after ? can't be read",
		"mysql://u:secret@tcp(host:3306)/db":                          "can't be read",
		"mysql://u:secret@host":                                       "no database name: write mysql://USER",
		"mariadb://u:secret@host":                                     "no database name: write mariadb://USER",
		"mysql://u:secret@host/db?tls=secret":                         "the option tls is one of false, preferred, skip-verify, true",
		"mysql://u:secret@host/db?sslmode=require":                    `unknown option "sslmode"; MySQL has tls`,
		"mariadb://u:secret@host/db?parseTime=secret":                 `unknown option "parseTime"; MariaDB has tls`,
	}
	for text, want := range bad {
		d, err := store.Parse(text)
		if !errors.Is(err, store.ErrURL) || !strings.Contains(err.Error(), want) || d != (store.Database{}) {
			t.Errorf("Parse(%q): %v; want ErrURL with %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sec") {
			t.Errorf("Parse(%q) repeats the password: %v", text, err)
		}
	}
}

// TestServerSettings asks every connection of a pool, also one that was opened later.
func TestServerSettings(t *testing.T) {
	mysql := map[string]string{
		"@@wait_timeout":             "5",
		"@@innodb_lock_wait_timeout": "5",
		"@@time_zone":                "+00:00",
		"@@sql_mode":                 "NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
		"@@tx_isolation":             "READ-COMMITTED",
		"@@idle_transaction_timeout": "5",
		"@@max_statement_time":       "60",
		"@@character_set_client":     "utf8mb4",
		"@@character_set_results":    "utf8mb4",
		"@@collation_connection":     "utf8mb4_bin",
		"database()":                 "t",
	}
	postgres := map[string]string{
		"current_setting('idle_in_transaction_session_timeout')": "5s",
		"current_setting('lock_timeout')":                        "5s",
		"current_setting('statement_timeout')":                   "1min",
		"current_setting('tcp_user_timeout')":                    "10000",
		"current_setting('tcp_keepalives_idle')":                 "5",
		"current_setting('application_name')":                    "lockkeeper",
		"current_setting('timezone')":                            "UTC",
		"current_setting('client_encoding')":                     "UTF8",
		"current_database()":                                     "t",
	}
	pooler := map[string]string{
		"current_setting('application_name')": "lockkeeper",
		"current_setting('lock_timeout')":     "0",
		"current_database()":                  "t",
	}
	for name, settings := range map[string]map[string]string{
		"MariaDB": mysql, "PostgreSQL": postgres, "PostgreSQL behind a pooler": pooler,
	} {
		t.Run(name, func(t *testing.T) {
			db := newPlace(t, name).open(t)
			if n := db.Stats().MaxOpenConnections; n != 4 {
				t.Errorf("%d connections at most", n)
			}
			for range 4 {
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				for expression, want := range settings {
					var got string
					err := conn.QueryRowContext(t.Context(), "SELECT "+expression).Scan(&got)
					if err != nil || got != want && (want != "t" || !strings.HasPrefix(got, want)) {
						t.Errorf("%s: %q, %v; want %q", expression, got, err, want)
					}
				}
			}
		})
	}
}

// TestOpenFindsTheKind: MariaDB is found under MySQL's name, and gets its own settings.
func TestOpenFindsTheKind(t *testing.T) {
	p := newPlace(t, "MariaDB")
	p.url = "mysql" + strings.TrimPrefix(p.url, "mariadb")
	db := p.open(t) // looks at the kind
	if n := one[int](t, db, "SELECT @@idle_transaction_timeout"); n != 5 {
		t.Errorf("idle_transaction_timeout is %d", n)
	}
	for version, want := range map[string]sqlfence.Dialect{
		"10.11.6-MariaDB-0+deb12u1": sqlfence.MariaDB, "10.6.0-MariaDB": sqlfence.MariaDB, "11.4.2-MariaDB-log": sqlfence.MariaDB,
		"10.5.23-MariaDB": 0, "5.5.68-MariaDB": 0,
		"8.0.19": sqlfence.MySQL, "8.0.36-0ubuntu0.22.04.1": sqlfence.MySQL, "8.4.0": sqlfence.MySQL, "9.1.0-commercial": sqlfence.MySQL,
		"8.0.18": 0, "5.7.44-log": 0, "": 0, "x.y.z": 0, "8": 0,
	} {
		if kind, ok := store.MySQLVersion(version); ok != (want != 0) || ok && kind != want {
			t.Errorf("version %q: %s, %v", version, kind, ok)
		}
	}
}

// with returns a URL with some of its parts changed.
func with(t *testing.T, text string, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// TestOpenServerFails: each error says in words what is wrong, names the database, and
// shows no password.
func TestOpenServerFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close() // nobody listens there now
	host := func(h string) func(*url.URL) { return func(u *url.URL) { u.Host = h } }
	user := func(name string) func(*url.URL) {
		return func(u *url.URL) { u.User = url.UserPassword(name, "secret") }
	}
	query := func(q string) func(*url.URL) { return func(u *url.URL) { u.RawQuery = q } }
	tests := []struct {
		what, want     string
		change         func(u *url.URL)
		postgres, mysq string // codes
	}{
		{"refused", "nothing listens there", host(free.Addr().String()), "", ""},
		{"silent", "no answer in time", host(l.Addr().String()), "", ""},
		{"unknown host", "can't be resolved", host("a..b"), "", ""},
		{"password", "refuses the user or the password", user("guarded"), "28P01", "1045"},
		{"user", "refuses the user or the password", user("nobody"), "28000", "1045"},
		{"database", "no such database", func(u *url.URL) { u.Path = "/nowhere" }, "3D000", "1049"},
	}
	for _, kind := range []string{"PostgreSQL", "MariaDB"} {
		p := newPlace(t, kind)
		if kind == "PostgreSQL" {
			exec(t, p.open(t), "DROP ROLE IF EXISTS guarded")
			exec(t, p.open(t), "CREATE ROLE guarded LOGIN PASSWORD 'other'")
		}
		check := func(t *testing.T, text, want, code string) {
			t.Helper()
			patience := 20 * time.Second
			if strings.HasPrefix(want, "no answer") {
				patience = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			db, _, err := store.Open(ctx, text)
			if err == nil {
				_ = db.Close()
				t.Fatal("it was opened")
			}
			d, _ := store.Parse(text)
			message := err.Error()
			if !strings.Contains(message, want) || !strings.Contains(message, "database "+d.String()) || store.ErrorCode(err) != code {
				t.Errorf("%v (code %q); want %q, code %q", err, store.ErrorCode(err), want, code)
			}
			if strings.Contains(message, "secret") || strings.Contains(message, "lockkeeper:lockkeeper") || errors.Is(err, store.ErrURL) {
				t.Errorf("%v: shows the password or matches ErrURL", err)
			}
			t.Log(err)
		}
		for _, tt := range tests {
			t.Run(kind+"/"+tt.what, func(t *testing.T) {
				code := tt.postgres
				if kind == "MariaDB" {
					code = tt.mysq
				}
				check(t, with(t, p.url, tt.change), tt.want, code)
			})
		}
		t.Run(kind+"/no TLS", func(t *testing.T) {
			asks := map[string]string{"PostgreSQL": "sslmode=require", "MariaDB": "tls=true"}[kind]
			check(t, with(t, p.url, query(asks)), "does not speak TLS", "")
		})
	}
}

// TestTLS opens a server that speaks TLS with each option, and asks it what it sees.
func TestTLS(t *testing.T) {
	const trusted, untrusted = "yes", "not trusted"
	tests := map[sqltest.Kind]map[string]string{
		sqltest.Postgres: {
			"sslmode=disable": "no", "sslmode=prefer": trusted, "": trusted, "sslmode=require": trusted,
			"sslmode=verify-full": untrusted,
		},
		sqltest.MariaDB: {
			"tls=false": "no", "": "no", "tls=preferred": trusted, "tls=skip-verify": trusted, "tls=true": untrusted,
		},
	}
	asks := map[sqltest.Kind]string{
		sqltest.Postgres: "SELECT CASE WHEN ssl THEN 'yes' ELSE 'no' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
		sqltest.MariaDB: "SELECT CASE WHEN variable_value = '' THEN 'no' ELSE 'yes' END FROM information_schema.session_status " +
			"WHERE variable_name = 'SSL_CIPHER'",
	}
	for kind, options := range tests {
		t.Run(kind.String(), func(t *testing.T) {
			server := sqltest.Start(t, kind, sqltest.TLS())
			base := server.NewDatabase(t)
			opens := func(option, want string) {
				t.Helper()
				text := with(t, base, func(u *url.URL) { u.RawQuery = option })
				db, _, err := store.Open(t.Context(), text)
				if err != nil {
					if want != untrusted || !strings.Contains(err.Error(), want) {
						t.Errorf("%q: %v; want %q", option, err, want)
					}
					return
				}
				defer func() { _ = db.Close() }()
				if got := one[string](t, db, asks[kind]); got != want {
					t.Errorf("%q: TLS %s, want %q", option, got, want)
				}
			}
			for option, want := range options {
				opens(option, want)
			}
			if kind == sqltest.Postgres { // an authority comes from the environment
				t.Setenv("PGSSLROOTCERT", server.CertFile())
				opens("sslmode=verify-full", trusted)
			}
		})
	}
}

// TestPassword: a password that does not stand in the URL, with all that makes trouble
// there.
func TestPassword(t *testing.T) {
	const password = `p@ss/w:o?r#d%20 'ü"`
	for kind, create := range map[string]string{
		"PostgreSQL": "CREATE ROLE guarded LOGIN PASSWORD '" + strings.ReplaceAll(password, "'", "''") + "'",
		"MariaDB":    "CREATE OR REPLACE USER guarded IDENTIFIED BY '" + strings.ReplaceAll(password, "'", "''") + "'",
	} {
		t.Run(kind, func(t *testing.T) {
			p := newPlace(t, kind)
			db := p.open(t)
			if kind == "PostgreSQL" {
				exec(t, db, "DROP ROLE IF EXISTS guarded")
			}
			exec(t, db, create)
			if kind == "MariaDB" {
				exec(t, db, "GRANT ALL ON *.* TO guarded")
			}
			bare := with(t, p.url, func(u *url.URL) { u.User = url.User("guarded") })
			full := with(t, p.url, func(u *url.URL) { u.User = url.UserPassword("guarded", password) })
			d, err := store.Parse(bare)
			if err != nil {
				t.Fatal(err)
			}
			e, err := store.Parse(full)
			if err != nil || e != d.WithPassword(password) {
				t.Fatalf("the two ways differ: %v", err)
			}
			opened, _, err := e.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
			if _, _, err := d.Open(t.Context()); err == nil {
				t.Error("opened without a password")
			}
		})
	}
}

func TestErrorCode(t *testing.T) {
	on(t, kinds, func(t *testing.T, p place) {
		db, _ := p.ledger(t)
		unique := map[sqlfence.Dialect]string{sqlfence.SQLite: "19", sqlfence.Postgres: "23505", sqlfence.MariaDB: "1062"}[p.kind]
		syntax := map[sqlfence.Dialect]string{sqlfence.SQLite: "1", sqlfence.Postgres: "42601", sqlfence.MariaDB: "1064"}[p.kind]
		exec(t, db, "INSERT INTO t (id, v) VALUES (7, 'x')")
		for statement, want := range map[string]string{"INSERT INTO t (id, v) VALUES (7, 'x')": unique, "SELEKT": syntax} {
			_, err := db.ExecContext(t.Context(), statement)
			if got := store.ErrorCode(fmt.Errorf("wrapped: %w", err)); got != want {
				t.Errorf("%s: %q, want %q (%v)", statement, got, want, err)
			}
		}
	})
	for _, err := range []error{nil, errors.New("Error 1062"), context.Canceled, sql.ErrNoRows, &net.OpError{Err: errors.New("x")}} {
		if got := store.ErrorCode(err); got != "" {
			t.Errorf("%v has the code %q", err, got)
		}
	}
}

// TestGuardIsForFiles: the others have nothing to guard.
func TestGuardIsForFiles(t *testing.T) {
	for text, want := range map[string]bool{"sqlite:x.db": true, "postgres://u@h/d": false, "mysql://u@h/d": false} {
		d, err := store.Parse(text)
		if err != nil || (d.Guard(nil) != nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestServerComesBack: a pool outlives its server's crash.
func TestServerComesBack(t *testing.T) {
	for _, kind := range []sqltest.Kind{sqltest.Postgres, sqltest.MariaDB} {
		t.Run(kind.String(), func(t *testing.T) {
			server := sqltest.Start(t, kind)
			db, _, err := store.Open(t.Context(), server.NewDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			exec(t, db, "CREATE TABLE t (n INTEGER)")
			exec(t, db, "INSERT INTO t VALUES (1)")
			server.Kill()
			if _, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err == nil || store.ErrorCode(err) != "" {
				t.Errorf("without a server: %v, code %q", err, store.ErrorCode(err))
			}
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			exec(t, db, "INSERT INTO t VALUES (3)")
			if n := one[int](t, db, "SELECT sum(n) FROM t"); n != 4 {
				t.Errorf("the sum is %d, want 4", n)
			}
		})
	}
}

// TestStoppedServer: a statement ends with its context, not with the server.
func TestStoppedServer(t *testing.T) {
	for _, kind := range []sqltest.Kind{sqltest.Postgres, sqltest.MariaDB} {
		t.Run(kind.String(), func(t *testing.T) {
			server := sqltest.Start(t, kind)
			db, _, err := store.Open(t.Context(), server.NewDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if err := server.Pause(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := db.ExecContext(ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("on a stopped server: %v", err)
			}
			if err := server.Continue(); err != nil {
				t.Fatal(err)
			}
			if n := one[int](t, db, "SELECT 1"); n != 1 {
				t.Errorf("after that: %d", n)
			}
		})
	}
}

// TestPrepareServerTouchesNothing: --print shows a migration without a server.
func TestPrepareServerTouchesNothing(t *testing.T) {
	for _, text := range []string{"postgres://u@127.0.0.1:1/d", "mysql://u@127.0.0.1:1/d", "mariadb://u@127.0.0.1:1/d"} {
		d, err := store.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		db, err := d.Prepare()
		if err != nil {
			t.Fatal(err)
		}
		s, err := sqlfence.New(db, d.Kind())
		if err != nil || !strings.Contains(s.Migration(), "lockkeeper_fence") {
			t.Errorf("%s: %v", text, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
