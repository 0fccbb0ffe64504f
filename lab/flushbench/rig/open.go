package rig

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite" // and its driver, by the name "sqlite"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// conns is how many connections a process has.
const conns = 4

// Open returns a database as cmd/lockkeeper/internal/store opens it, which can't be
// imported here: what matters for speed and for faults is the same. It sends nothing.
func Open(kind sqlfence.Dialect, address string) (*sql.DB, error) {
	switch kind {
	case sqlfence.SQLite:
		return openSQLite(address)
	case sqlfence.Postgres:
		return openPostgres(address)
	case sqlfence.MariaDB:
		return openMariaDB(address)
	}
	return nil, fmt.Errorf("rig: no database of kind %s", kind)
}

func openSQLite(path string) (*sql.DB, error) {
	const options = "_txlock=immediate&_error_rc=1&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)" +
		"&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: options}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func openPostgres(address string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"application_name":                    "lockkeeper",
		"idle_in_transaction_session_timeout": "5000",
		"lock_timeout":                        "5000",
		"statement_timeout":                   "60000",
		"tcp_user_timeout":                    "10000",
		"tcp_keepalives_idle":                 "5",
		"tcp_keepalives_interval":             "2",
		"tcp_keepalives_count":                "3",
		"timezone":                            "UTC",
	} {
		cfg.RuntimeParams[name] = value
	}
	cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	return limit(stdlib.OpenDB(*cfg), time.Minute), nil
}

func openMariaDB(address string) (*sql.DB, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	cfg.Timeout = 15 * time.Second
	cfg.Collation = "utf8mb4_bin"
	cfg.Logger = &mysql.NopLogger{}
	cfg.InterpolateParams, cfg.RejectReadOnly = true, true
	cfg.Params = map[string]string{
		"wait_timeout":             "5",
		"innodb_lock_wait_timeout": "5",
		"idle_transaction_timeout": "5",
		"max_statement_time":       "60",
		"tx_isolation":             "'READ-COMMITTED'",
		"time_zone":                "'+00:00'",
		"sql_mode":                 "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return limit(sql.OpenDB(connector), 3*time.Second), nil
}

func limit(db *sql.DB, idle time.Duration) *sql.DB {
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idle)
	return db
}

// ErrorCode returns what a database calls an error, for flush.SQL.Codes.
func ErrorCode(err error) string {
	var (
		ofPostgres *pgconn.PgError
		ofMariaDB  *mysql.MySQLError
		ofSQLite   *sqlite.Error
	)
	switch {
	case errors.As(err, &ofPostgres):
		return ofPostgres.Code
	case errors.As(err, &ofMariaDB):
		return strconv.Itoa(int(ofMariaDB.Number))
	case errors.As(err, &ofSQLite):
		return strconv.Itoa(ofSQLite.Code() & 0xff)
	}
	return ""
}
