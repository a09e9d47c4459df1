int fast;
