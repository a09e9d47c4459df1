use strict;
use warnings;

use Test::Pod;

all_pod_files_ok('lib');
