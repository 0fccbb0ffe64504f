package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A server is what a URL says about a database that is reached over the network.
type server struct {
	scheme   string
	user     string
	password string
	host     string
	port     int
	name     string // of the database
	tls      string // sslmode of PostgreSQL, tls of MySQL; "" is the driver's default
	pooler   bool   // PostgreSQL is behind a pooler that shares sessions
}

func (s server) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

func (s server) String() string {
	u := url.URL{Scheme: s.scheme, User: url.User(s.user), Host: s.address(), Path: s.name}
	return u.String()
}

// usual is what sessions are held to.
var usual = limits{idle: 5 * time.Second, lock: 5 * time.Second, statement: time.Minute}

// parseServer reads the URL of a server. The parts of it are repeated in no error but the
// names of options: what is before them may be a password that was written wrongly.
func parseServer(kind sqlfence.Dialect, text string) (Database, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Database{}, fmt.Errorf("%w: it can't be read: write %s; in a name or a password "+
			"anything but letters, digits and -._~ is written as %%XX", ErrURL, form(kind))
	}
	name := strings.TrimPrefix(u.Path, "/")
	port, hasPort := defaultPort(kind), u.Port() != ""
	if hasPort {
		port, _ = strconv.Atoi(u.Port()) // digits, and out of range if there are too many
	}
	var problem string
	switch {
	case u.User.Username() == "":
		problem = "no user"
	case u.Hostname() == "":
		problem = "no host"
	case strings.Contains(u.Host, ","):
		problem = "several hosts"
	case port < 1 || port > 65535:
		problem = "the port is not between 1 and 65535"
	case name == "":
		problem = "no database name"
	case strings.Contains(u.EscapedPath()[1:], "/"):
		problem = "more than one name after the host"
	case strings.ContainsRune(u.User.Username()+name, 0):
		problem = "a name with a zero byte"
	case u.Fragment != "":
		problem = "a # has to be written as %23"
	}
	if problem != "" {
		return Database{}, fmt.Errorf("%w: %s: write %s", ErrURL, problem, form(kind))
	}
	password, _ := u.User.Password()
	d := Database{kind: kind, limits: usual, server: server{
		scheme: strings.ToLower(u.Scheme), user: u.User.Username(), password: password,
		host: u.Hostname(), port: port, name: name,
	}}
	if err := d.server.options(kind, u.RawQuery); err != nil {
		return Database{}, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return d, nil
}

func form(kind sqlfence.Dialect) string {
	switch kind {
	case sqlfence.Postgres:
		return "postgres://USER:PASSWORD@HOST:PORT/DATABASE"
	case sqlfence.MariaDB:
		return "mariadb://USER:PASSWORD@HOST:PORT/DATABASE"
	}
	return "mysql://USER:PASSWORD@HOST:PORT/DATABASE"
}

func defaultPort(kind sqlfence.Dialect) int {
	if kind == sqlfence.Postgres {
		return 5432
	}
	return 3306
}

var (
	sslModes  = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}
	tlsModes  = []string{"false", "preferred", "skip-verify", "true"}
	yesAndNo  = []string{"true", "false"}
	ofServers = map[sqlfence.Dialect]map[string][]string{
		sqlfence.Postgres: {"sslmode": sslModes, "pooler": yesAndNo},
		sqlfence.MySQL:    {"tls": tlsModes},
		sqlfence.MariaDB:  {"tls": tlsModes},
	}
)

// options takes in what follows the ?.
func (s *server) options(kind sqlfence.Dialect, query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the options after ? can't be read")
	}
	known := ofServers[kind]
	for option, given := range values {
		allowed, ok := known[option]
		switch {
		case !ok:
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			return fmt.Errorf("unknown option %q; %s has %s", option, kind, strings.Join(names, ", "))
		case len(given) > 1:
			return fmt.Errorf("the option %s is there twice", option)
		case !slices.Contains(allowed, given[0]):
			return fmt.Errorf("the option %s is one of %s", option, strings.Join(allowed, ", "))
		case option == "pooler":
			s.pooler = given[0] == "true"
		default:
			s.tls = given[0]
		}
	}
	return nil
}

// limitPool bounds the connections of a server. They are given up before the server does
// that to an idle one.
func limitPool(db *sql.DB, idle time.Duration) *sql.DB {
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idle * 3 / 5)
	return db
}

// explain says what a failed connection means and what to do.
func (d Database) explain(err error) error {
	return fmt.Errorf("database %s: %s: %w", d, d.reason(err), err)
}

func (d Database) reason(err error) string {
	switch ErrorCode(err) {
	case "28P01", "28000", "1045", "1698":
		return "the server refuses the user or the password: check both, and from where the user may connect"
	case "3D000", "1049":
		return "the server has no such database: create it"
	case "1044", "42501":
		return "the user has no right to the database: grant it"
	case "53300", "1040", "1203", "1226":
		return "the server has too many connections: raise its limit, or close others"
	case "57P03":
		return "the server is starting or stopping: try again in a moment"
	case "42704", "08P01":
		return "the server refuses a setting of the session: behind a pooler, add ?pooler=true"
	case "":
		return d.reasonOfNetwork(err)
	}
	return "the server refuses the connection"
}

func (d Database) reasonOfNetwork(err error) string {
	var (
		unknown  *net.DNSError
		badCert  *tls.CertificateVerificationError
		badName  x509.HostnameError
		noTLS    tls.RecordHeaderError
		ofSystem syscall.Errno
	)
	text := err.Error()
	switch {
	case errors.As(err, &unknown):
		return "the name of the host can't be resolved: check it"
	case errors.As(err, &badCert), errors.As(err, &badName):
		return "the server's certificate is not trusted: check its authority and its name"
	case errors.As(err, &noTLS), errors.Is(err, mysql.ErrNoTLS), strings.Contains(text, "refused TLS"):
		return "the server does not speak TLS, which the URL asks for: set it up there, or ask for none"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: check host and port, and whether the server runs"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), isTimeout(err):
		return "no answer in time: check host and port, and whether a firewall is in between"
	case strings.Contains(text, "read only connection"):
		return "the server is read-only: name the primary, not a replica"
	case errors.As(err, &ofSystem):
		return "the server can't be reached"
	}
	return "can't be connected to"
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
