int silent;
