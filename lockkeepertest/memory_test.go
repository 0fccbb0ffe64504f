package lockkeepertest_test

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

func TestMemoryConformance(t *testing.T) {
	lockkeepertest.Conformance(t, func(*testing.T) lockkeepertest.Fixture {
		return lockkeepertest.NewMemory().Fixture()
	})
}
