package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresParams are set on every connection, as sqlfence.Postgres wants it.
func postgresParams(l limits) map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"idle_in_transaction_session_timeout": ms(l.idle),
		"lock_timeout":                        ms(l.lock),
		"statement_timeout":                   ms(l.statement),
		// A client whose machine is gone is noticed by the server in about as long.
		"tcp_user_timeout":        ms(2 * l.idle),
		"tcp_keepalives_idle":     "5",
		"tcp_keepalives_interval": "2",
		"tcp_keepalives_count":    "3",
		"timezone":                "UTC",
	}
}

// postgresConfig returns how connections are made. What the URL leaves open, such as the
// file of the authority's certificate, comes from libpq's variables in the environment.
func (d Database) postgresConfig() (*pgx.ConnConfig, error) {
	s := d.server
	query := url.Values{}
	if s.tls != "" {
		query.Set("sslmode", s.tls)
	}
	u := url.URL{Scheme: "postgres", User: url.User(s.user), Host: s.address(), Path: "/" + s.name, RawQuery: query.Encode()}
	if s.password != "" {
		u.User = url.UserPassword(s.user, s.password)
	}
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", d, err) // pgx leaves the password out
	}
	cfg.RuntimeParams["application_name"] = "lockkeeper"
	// A replica would refuse the first write only.
	cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	if s.pooler {
		// A statement that was prepared in one session is not there in the next, and a
		// pooler refuses most settings of a session: they belong to the role then.
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
		return cfg, nil
	}
	for name, value := range postgresParams(d.limits) {
		cfg.RuntimeParams[name] = value
	}
	return cfg, nil
}

func (d Database) preparePostgres() (*sql.DB, error) {
	cfg, err := d.postgresConfig()
	if err != nil {
		return nil, err
	}
	return limitPool(stdlib.OpenDB(*cfg), time.Minute), nil
}

func (d Database) openPostgres(ctx context.Context) (*sql.DB, error) {
	db, err := d.preparePostgres()
	if err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(d.explain(err), db.Close())
	}
	return db, nil
}
