package store_test

import (
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/flush"
)

// TestAutoIncrementZero: in an AUTO_INCREMENT column a 0 is a 0.
func TestAutoIncrementZero(t *testing.T) {
	m := players()
	m.Create = false
	w := newWorldOn(t, newPlace(t, "MariaDB"), realRedis(t), m)
	exec(t, w.db, `CREATE TABLE player (id BIGINT PRIMARY KEY AUTO_INCREMENT, name LONGTEXT, score BIGINT, lockkeeper_version BIGINT NOT NULL DEFAULT 0)`)
	for _, name := range []string{"Ann", "Amy"} {
		w.set("player:0", "name", name)
		w.want(w.pass(), flush.Stats{Keys: 1, Upserts: 1})
	}
	w.rows(allPlayers, "0 Amy -")
}

// TestTooLargeForThePacket: a row that is larger than the server takes is parked, and the
// job goes on with the same connections.
func TestTooLargeForThePacket(t *testing.T) {
	w := newWorldOn(t, newPlace(t, "MariaDB"), realRedis(t))
	w.set("player:1", "name", strings.Repeat("x", 17<<20))
	w.set("player:2", "name", "Ann")
	w.want(w.pass(), flush.Stats{Keys: 2, Upserts: 1, Parked: 1})
	w.parked("player:1", "packet")
	w.rows(allPlayers, "2 Ann -")
}
