package rueidisconn

import _ "github.com/redis/rueidis"
