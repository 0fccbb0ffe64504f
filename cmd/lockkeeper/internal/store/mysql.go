package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// strict has the server refuse what it would change. NO_AUTO_VALUE_ON_ZERO is part of
// that: in an AUTO_INCREMENT column a 0 would be the next number.
const strict = "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"

// mysqlParams are set on every connection, as sqlfence.MySQL and MariaDB want it.
func mysqlParams(kind sqlfence.Dialect, l limits) map[string]string {
	seconds := func(d time.Duration) string { return strconv.Itoa(max(1, int(d.Seconds()))) }
	params := map[string]string{
		"wait_timeout":             seconds(l.idle),
		"innodb_lock_wait_timeout": seconds(l.lock),
		"sql_mode":                 strict,
		"time_zone":                "'+00:00'",
	}
	if kind == sqlfence.MySQL {
		params["transaction_isolation"] = "'READ-COMMITTED'"
		return params
	}
	params["tx_isolation"] = "'READ-COMMITTED'"
	params["idle_transaction_timeout"] = seconds(l.idle)
	params["max_statement_time"] = seconds(l.statement)
	return params
}

// mysqlConfig returns how connections are made, without what depends on the server.
func (d Database) mysqlConfig() *mysql.Config {
	s := d.server
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = s.user, s.password, s.name
	cfg.Net, cfg.Addr = "tcp", s.address()
	cfg.TLSConfig = s.tls
	cfg.Timeout = firstConnect
	cfg.Collation = "utf8mb4_bin" // of texts in statements; both servers have it
	cfg.Logger = &mysql.NopLogger{}
	cfg.ConnectionAttributes = "program_name:lockkeeper"
	// One round trip a statement instead of two or three.
	cfg.InterpolateParams = true
	// Ask the server, so that a value that is too large is refused here: the server would
	// break the connection.
	cfg.MaxAllowedPacket = 0
	// A server that has become a replica refuses to write on connections that it had
	// before: they are of no use any more.
	cfg.RejectReadOnly = true
	return cfg
}

func (d Database) prepareMySQL(kind sqlfence.Dialect) (*sql.DB, error) {
	cfg := d.mysqlConfig()
	cfg.Params = mysqlParams(kind, d.limits)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", d, err)
	}
	return limitPool(sql.OpenDB(connector), d.limits.idle), nil
}

func (d Database) openMySQL(ctx context.Context) (*sql.DB, sqlfence.Dialect, error) {
	kind, err := d.whichMySQL(ctx)
	if err != nil {
		return nil, 0, err
	}
	db, err := d.prepareMySQL(kind)
	if err != nil {
		return nil, 0, err
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, 0, errors.Join(d.explain(err), db.Close())
	}
	return db, kind, nil
}

// whichMySQL asks the server what it is. The two speak the same protocol, and differ in
// the settings of a session.
func (d Database) whichMySQL(ctx context.Context) (kind sqlfence.Dialect, err error) {
	connector, err := mysql.NewConnector(d.mysqlConfig())
	if err != nil {
		return 0, fmt.Errorf("database %s: %w", d, err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	var version string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return 0, d.explain(err)
	}
	kind, ok := mysqlVersion(version)
	if !ok {
		return 0, fmt.Errorf("database %s: the server is %s: this needs MySQL 8.0.19 or MariaDB 10.6, or newer", d, version)
	}
	return kind, nil
}

// mysqlVersion reads what VERSION() says, such as 8.0.36 or 10.11.6-MariaDB-log, and
// reports whether it is new enough.
func mysqlVersion(text string) (kind sqlfence.Dialect, ok bool) {
	number, _, _ := strings.Cut(text, "-")
	var version [3]int
	for i, part := range strings.SplitN(number, ".", 3) {
		version[i], _ = strconv.Atoi(part) // no number counts as 0
	}
	atLeast := func(major, minor, patch int) bool {
		v := version[0]<<20 | version[1]<<10 | version[2]
		return v >= major<<20|minor<<10|patch
	}
	if strings.Contains(strings.ToLower(text), "mariadb") {
		return sqlfence.MariaDB, atLeast(10, 6, 0)
	}
	return sqlfence.MySQL, atLeast(8, 0, 19)
}
