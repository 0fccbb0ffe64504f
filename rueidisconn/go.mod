module github.com/lockkeeper/lockkeeper/rueidisconn

go 1.25.0

require github.com/redis/rueidis v1.0.79

require (
	github.com/lockkeeper/lockkeeper v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/lockkeeper/lockkeeper => ../
