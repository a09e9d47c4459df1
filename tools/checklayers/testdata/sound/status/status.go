package status

import _ "errors"
