package novel
