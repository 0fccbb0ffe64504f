package store

import "time"

// WithLimits returns the database with other limits of its sessions, so that no test has
// to wait for the usual ones.
func (d Database) WithLimits(idle, lock time.Duration) Database {
	d.limits.idle, d.limits.lock = idle, lock
	return d
}

// MySQLVersion is mysqlVersion.
var MySQLVersion = mysqlVersion
