package rig

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/sqltest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A Database is a database for one run: a server, or a file of SQLite.
type Database struct {
	Kind   sqlfence.Dialect
	URL    string          // for Open
	Server *sqltest.Server // nil for SQLite
}

// StartDatabase starts a server with the durability that it has by itself, or names a
// file in a folder.
func StartDatabase(ctx context.Context, kind sqlfence.Dialect, dir string) (*Database, error) {
	d := &Database{Kind: kind}
	of := map[sqlfence.Dialect]sqltest.Kind{sqlfence.Postgres: sqltest.Postgres, sqlfence.MariaDB: sqltest.MariaDB}
	switch {
	case kind == sqlfence.SQLite:
		d.URL = filepath.Join(dir, "flush.db")
		return d, nil
	case of[kind] == 0:
		return nil, fmt.Errorf("rig: no database of kind %s", kind)
	}
	var err error
	if d.Server, err = sqltest.Run(ctx, of[kind], sqltest.Durable()); err != nil {
		return nil, err
	}
	if d.URL, err = d.Server.CreateDatabase(ctx, "lab"); err != nil {
		_ = d.Server.Close() // the first error says it
		return nil, err
	}
	return d, nil
}

// CPU returns what the server has used, all its processes together. SQLite has none.
func (d *Database) CPU() time.Duration {
	if d.Server == nil {
		return 0
	}
	return cpuOfServer(map[sqltest.Kind]string{sqltest.Postgres: "postgres", sqltest.MariaDB: "mariadbd"}[d.Server.Kind()], d.Server.Port())
}

// Close ends the server.
func (d *Database) Close() error {
	if d.Server == nil {
		return nil
	}
	return d.Server.Close()
}
