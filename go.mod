module github.com/lockkeeper/lockkeeper

go 1.25.0
