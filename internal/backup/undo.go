package backup

import "time"

// SetAside is how long the data that a restore replaced is kept, from when the restored data serves.
const SetAside = 24 * time.Hour
